// Sessions between workers and a server over real TLS on loopback, with a desk that only remembers.

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "engine/vote_fakes.h"

/// c-ares, which looks up names for gRPC, loses ten bytes with every "localhost".
extern "C" const char* __lsan_default_suppressions() { return "leak:libcares"; }

namespace signvote {
namespace {

using Kind = SessionEnd::Kind;

Refusal refusal(Refusal::Kind kind) { return {kind, "a_word", "so that you know"}; }

TEST(VoteSession, goes_from_hello_to_goodbye) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  EXPECT_EQ(server.sessions(), 0u);
  TestWorker worker(server);
  EXPECT_EQ(worker.last().welcome().config(), "for ann");
  EXPECT_EQ(server.sessions(), 1u);
  for (std::uint64_t round = 0; round < 5; ++round) {
    ASSERT_TRUE(worker->send(ballot(round)));
    ASSERT_TRUE(desk.wait_for_ballots(round + 1));
    desk.give("ann", verdict(round + 1, "bits"));
    server.wake();
    ASSERT_TRUE(worker.receive());
    EXPECT_EQ(worker.last().verdict().open_round(), round + 1);
    EXPECT_EQ(worker.last().verdict().message(), "bits");
  }
  desk.give("ann", Session::Goodbye{});
  server.wake();
  EXPECT_FALSE(worker.receive());
  EXPECT_EQ(worker->end().kind, Kind::done);
  server.wait_for_goodbyes(kHanging.count());
  EXPECT_EQ(server.sessions(), 0u);
  EXPECT_TRUE(desk.wait_for_sessions(0));
  EXPECT_TRUE(desk.refusals().empty());
  ASSERT_EQ(desk.peers().size(), 1u);
  EXPECT_TRUE(desk.peers().front().starts_with("127.0.0.1:")) << desk.peers().front();
}

TEST(VoteSession, believes_the_certificate_and_not_the_hello) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  VoteClient client(client_options(server, "ann"));
  ASSERT_TRUE(client.begin(kConnectSeconds));
  ASSERT_TRUE(client.send(hello("bob")));
  v1::ToWorker welcome;
  ASSERT_TRUE(client.receive(welcome));
  EXPECT_EQ(welcome.welcome().config(), "for ann");
}

TEST(VoteSession, works_without_tls_on_loopback) {
  FakeDesk desk;
  VoteServer server({"localhost:0", {}, "", kLargest, 10, 60}, desk);
  TestWorker worker({"localhost:" + std::to_string(server.port()), {}, ""}, "carol");
  EXPECT_EQ(worker.last().welcome().config(), "for carol");
  VoteClient nobody({"localhost:" + std::to_string(server.port()), {}, ""});
  ASSERT_TRUE(nobody.begin(kConnectSeconds));
  nobody.send(hello(""));
  v1::ToWorker message;
  EXPECT_FALSE(nobody.receive(message));
  EXPECT_EQ(nobody.end().kind, Kind::refused);
  EXPECT_EQ(desk.refusals().back().refusal.reason, "bad_name");
}

TEST(VoteSession, can_be_woken_by_a_session_that_holds_its_lock) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  desk.on_ballot = [&](const std::string& name, const v1::Ballot& ballot) -> std::optional<Refusal> {
    desk.give_locked(name, verdict(ballot.round() + 1));
    server.wake();
    return {};
  };
  TestWorker worker(server);
  for (std::uint64_t round = 0; round < 200; ++round) {
    ASSERT_TRUE(worker->send(ballot(round)));
    ASSERT_TRUE(worker.receive());
    ASSERT_EQ(worker.last().verdict().open_round(), round + 1);
  }
}

TEST(VoteSession, serves_many_at_once) {
  constexpr std::uint64_t kWorkers = 24, kRounds = 20;
  FakeDesk desk;
  VoteServer server({"localhost:0", {}, "", kLargest, 10, 60}, desk);
  const auto name = [](std::uint64_t i) { return "worker" + std::to_string(i); };
  std::uint64_t votes = 0;  // under the desk's lock
  desk.on_ballot = [&](const std::string&, const v1::Ballot&) -> std::optional<Refusal> {
    if (++votes % kWorkers == 0) {  // the same bytes for all
      const auto shared = verdict(votes / kWorkers);
      for (std::uint64_t i = 0; i < kWorkers; ++i) desk.give_locked(name(i), shared);
      server.wake();
    }
    return {};
  };
  std::atomic<std::uint64_t> received = 0;
  std::vector<std::jthread> threads;
  for (std::uint64_t i = 0; i < kWorkers; ++i)
    threads.emplace_back([&, i] {
      TestWorker worker({"localhost:" + std::to_string(server.port()), {}, ""}, name(i));
      for (std::uint64_t round = 0; round < kRounds; ++round)
        if (worker->send(ballot(round)) && worker.receive() &&
            worker.last().verdict().open_round() == round + 1)
          ++received;
    });
  threads.clear();
  EXPECT_EQ(received, kWorkers * kRounds);
  EXPECT_TRUE(desk.wait_for_sessions(0));
}

TEST(VoteSession, asks_for_a_message_for_a_slow_reader_only_when_the_one_before_has_left) {
  constexpr int kMessages = 12;
  v1::ToWorker content;
  content.mutable_verdict()->set_message(std::string(16 << 20, 'v'));
  std::string bytes = content.SerializeAsString();
  std::atomic<int> left = 0;  // gRPC has let go of so many
  FakeDesk desk;
  std::atomic<int> most = 0;
  desk.on_hand_out = [&] {  // all but the welcome
    most = std::max<int>(most, desk.handed_out_locked() - 1 - left);
  };
  VoteServer server(server_options(), desk);
  TestWorker worker(server);
  for (int i = 0; i < kMessages; ++i) {
    const grpc::Slice slice(
        bytes.data(), bytes.size(), [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &left);
    desk.give("ann", grpc::ByteBuffer(&slice, 1));
  }
  for (int read = 0; read < kMessages; ++read) {
    for (int i = 0; i < 50; ++i) {
      server.wake();
      std::this_thread::yield();
    }
    ASSERT_TRUE(worker.receive());
  }
  EXPECT_EQ(desk.handed_out(), kMessages + 1);
  EXPECT_GE(most, 1);
  EXPECT_LE(most, 2) << "the next, and one that has left and that gRPC may just be letting go of";
}

TEST(VoteSession, is_cut_if_it_is_unwanted_though_its_worker_does_not_read) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  TestWorker worker(server);
  for (int i = 0; i < 12; ++i) desk.give("ann", verdict(1, std::string(16 << 20, 'v')));
  server.wake();
  ASSERT_TRUE(desk.wait_for([&] { return desk.handed_out_locked() > 1; }));  // none of which is read
  desk.end("ann", {Refusal::Kind::replaced, "replaced", "another took the place"});
  server.wake();
  EXPECT_TRUE(desk.wait_for_sessions(0)) << "its memory must not wait for a worker that never reads";
  ASSERT_EQ(desk.refusals().size(), 1U);
  EXPECT_EQ(desk.refusals()[0].refusal.reason, "replaced");
}

TEST(VoteSession, is_told_why_it_is_unwanted_if_nothing_is_on_its_way) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  // A worker that has its welcome cannot know whether the server has noticed that it has left: where it has
  // not, the session is cut without a reason, and tried again.
  EXPECT_TRUE(eventually([&] {
    TestWorker worker(server);
    desk.end("ann", {Refusal::Kind::not_allowed, "no_longer_allowed", "taken off the list"});
    server.wake();
    EXPECT_FALSE(worker.receive());
    return worker->end().text.find("taken off the list") != std::string::npos;
  }));
  EXPECT_TRUE(desk.wait_for_sessions(0));
  EXPECT_EQ(desk.refusals().back().refusal.reason, "no_longer_allowed");
}

TEST(VoteSession, can_be_read_to_its_end_though_nothing_can_be_sent) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  VoteClientOptions options = client_options(server);
  options.read_ahead = 1 << 20;
  TestWorker worker(options, "ann");
  EXPECT_FALSE(worker->has_message());
  for (std::uint64_t round = 1; round <= 3; ++round) desk.give("ann", verdict(round));
  desk.give("ann", Session::Goodbye{});
  server.wake();
  ASSERT_TRUE(desk.wait_for_sessions(0));
  while (worker->send(ballot(0))) std::this_thread::yield();
  for (std::uint64_t round = 1; round <= 3; ++round) {
    // The server has sent it all, but the worker's own thread may not have read it yet.
    EXPECT_TRUE(eventually([&] { return worker->has_message(); }));
    ASSERT_TRUE(worker.receive());
    EXPECT_EQ(worker.last().verdict().open_round(), round);
  }
  EXPECT_FALSE(worker.receive());
  EXPECT_EQ(worker->end().kind, SessionEnd::Kind::done);
}

TEST(VoteSession, a_slow_reader_holds_up_nobody) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  TestWorker slow(server, "bob");
  TestWorker quick(server, "ann");
  const auto large = verdict(1, std::string(16 << 20, 'v'));
  for (int i = 0; i < 5; ++i) desk.give("bob", large);
  for (int i = 0; i < 50; ++i) {
    desk.give("ann", verdict(i));
    server.wake();
    ASSERT_TRUE(quick.receive());
  }
}

TEST(VoteSession, tells_a_worker_why_it_is_refused) {
  const std::vector<std::pair<Refusal::Kind, Kind>> cases = {{Refusal::Kind::not_allowed, Kind::refused},
                                                             {Refusal::Kind::bad_message, Kind::refused},
                                                             {Refusal::Kind::replaced, Kind::refused},
                                                             {Refusal::Kind::shutting_down, Kind::lost}};
  for (const auto& [kind, end] : cases) {
    const auto check = [&, end = end, kind = kind](FakeDesk& desk, VoteClient& client) {
      v1::ToWorker message;
      EXPECT_FALSE(client.receive(message));
      EXPECT_EQ(client.end().kind, end);
      EXPECT_NE(client.end().text.find("so that you know"), std::string::npos) << client.end().text;
      EXPECT_FALSE(client.send(ballot(0)));
      ASSERT_EQ(desk.refusals().size(), 1u);
      EXPECT_EQ(desk.refusals()[0].refusal.kind, kind);
      EXPECT_EQ(desk.refusals()[0].refusal.reason, "a_word");
      EXPECT_TRUE(desk.refusals()[0].peer.starts_with("127.0.0.1:"));
    };
    {  // at the door
      FakeDesk desk;
      desk.at_the_door["ann"] = refusal(kind);
      VoteServer server(server_options(), desk);
      VoteClient client(client_options(server));
      ASSERT_TRUE(client.begin(kConnectSeconds));
      ASSERT_TRUE(client.send(hello()));
      check(desk, client);
    }
    {  // for its ballot
      FakeDesk desk;
      desk.on_ballot = [kind = kind](const auto&, const auto&) { return refusal(kind); };
      VoteServer server(server_options(), desk);
      TestWorker worker(server);
      ASSERT_TRUE(worker->send(ballot(0)));
      check(desk, *worker);
      EXPECT_TRUE(desk.wait_for_sessions(0));
    }
    {  // in between
      FakeDesk desk;
      VoteServer server(server_options(), desk);
      TestWorker worker(server);
      desk.give("ann", refusal(kind));
      server.wake();
      check(desk, *worker);
      EXPECT_TRUE(desk.wait_for_sessions(0));
    }
  }
}

TEST(VoteSession, refuses_what_is_out_of_place) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  const auto not_utf8 = hello("\xff\xfe");  // protobuf sends it and does not read it
  const std::vector<std::pair<std::vector<v1::FromWorker>, std::string>> cases = {
      {{ballot(0)}, "no_hello"},
      {{v1::FromWorker()}, "empty_message"},
      {{not_utf8}, "not_a_message"},
      {{ballot(0, std::string(kLargest + 2000, 'b'))}, "too_large"},
      {{hello(), hello()}, "second_hello"},
      {{hello(), v1::FromWorker()}, "empty_message"},
      {{hello(), not_utf8}, "not_a_message"},
      {{hello(), ballot(0, std::string(kLargest + 2000, 'b'))}, "too_large"},
      {{hello(), ballot(0, std::string(20 << 20, 'b'))}, "too_large"},
      {{hello(), ballot(0, std::string(kLargest, 'b')), hello()}, "second_hello"},
  };
  std::size_t refused = 0;
  for (const auto& [messages, reason] : cases) {
    VoteClient client(client_options(server));
    ASSERT_TRUE(client.begin(kConnectSeconds));
    for (const auto& message : messages) client.send(message);
    for (v1::ToWorker message; client.receive(message);) continue;
    EXPECT_EQ(client.end().kind, Kind::refused) << reason << ": " << client.end().text;
    ASSERT_EQ(desk.refusals().size(), ++refused);
    EXPECT_EQ(desk.refusals().back().refusal.reason, reason);
    EXPECT_EQ(desk.refusals().back().refusal.kind, Refusal::Kind::bad_message);
  }
  EXPECT_TRUE(desk.wait_for_sessions(0));
  TestWorker still_there(server);
}

TEST(VoteSession, survives_an_exception_of_the_desk) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  desk.on_ballot = [](const auto&, const auto&) -> std::optional<Refusal> {
    throw std::runtime_error("the disk is full");
  };
  TestWorker worker(server);
  ASSERT_TRUE(worker->send(ballot(0)));
  EXPECT_FALSE(worker.receive());
  EXPECT_EQ(worker->end().kind, Kind::lost);
  EXPECT_NE(worker->end().text.find("the disk is full"), std::string::npos);
  EXPECT_EQ(desk.refusals().back().refusal.reason, "internal_error");
  EXPECT_TRUE(desk.wait_for_sessions(0));
  TestWorker again(server);
}

TEST(VoteSession, ends_a_silent_session) {
  FakeDesk desk;
  auto options = server_options();
  options.hello_seconds = 1;
  VoteServer server(options, desk);
  std::optional<TestWorker> polite;
  while (!polite) try {
      polite.emplace(server, "bob");
    } catch (const std::runtime_error&) {  // a busy machine: even the polite may be too late
    }
  // On a busy machine a connection may be too slow for the handshake already: then again.
  SessionEnd end;
  for (int i = 0; i < 30 && end.text.find("the hello took too long") == std::string::npos; ++i) {
    VoteClient client(client_options(server));
    ASSERT_TRUE(client.begin(kConnectSeconds));
    v1::ToWorker message;
    EXPECT_FALSE(client.receive(message));
    end = client.end();
    EXPECT_EQ(end.kind, Kind::lost);
  }
  EXPECT_NE(end.text.find("the hello took too long"), std::string::npos) << end.text;
  ASSERT_TRUE(desk.wait_for_refusals(1));
  EXPECT_TRUE(std::ranges::any_of(desk.refusals(), [](const FakeDesk::Refused& refused) {
    return refused.refusal.reason == "silence" &&
           refused.refusal.text == "a session that did not say hello in time";
  }));
  desk.give("bob", verdict(1));
  server.wake();
  EXPECT_TRUE(polite->receive());
}

TEST(VoteSession, the_server_can_go_at_any_time) {
  FakeDesk desk;
  auto server = std::make_unique<VoteServer>(server_options(), desk);
  TestWorker waiting(*server, "ann");
  TestWorker not_reading(*server, "bob");
  for (int i = 0; i < 3; ++i) desk.give("bob", verdict(1, std::string(16 << 20, 'v')));
  VoteClient silent(client_options(*server));
  ASSERT_TRUE(silent.begin(kConnectSeconds));
  server->wake();
  server.reset();
  ASSERT_TRUE(desk.wait_for_sessions(0));
  for (VoteClient* client : {&*waiting, &*not_reading, &silent}) {
    for (v1::ToWorker message; client->receive(message);) continue;
    EXPECT_EQ(client->end().kind, Kind::lost);
  }
  EXPECT_FALSE(silent.begin(0.2));
  EXPECT_EQ(silent.end().kind, Kind::lost);
}

TEST(VoteSession, a_worker_finds_the_server_again) {
  FakeDesk desk;
  auto server = std::make_unique<VoteServer>(server_options(), desk);
  auto options = server_options();
  options.listen = "127.0.0.1:" + std::to_string(server->port());
  TestWorker worker(*server);
  server.reset();
  EXPECT_FALSE(worker.receive());
  server = std::make_unique<VoteServer>(options, desk);
  for (int i = 0; i < 3; ++i) {  // a session may also follow another on the same connection
    // More than once if the worker has not noticed yet that the old connection is gone.
    ASSERT_TRUE(eventually([&] {
      return worker->begin(kConnectSeconds) && worker->send(hello()) && worker.receive();
    })) << worker->end().text;
    EXPECT_EQ(worker.last().welcome().config(), "for ann");
  }
  worker->end();
  EXPECT_TRUE(desk.wait_for_sessions(0));
}

TEST(VoteSession, cancel_ends_all_waiting) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  TestWorker worker(server);
  {
    std::jthread other([&] { worker->cancel(); });
    EXPECT_FALSE(worker.receive());
  }
  EXPECT_EQ(worker->end().kind, Kind::lost);
  EXPECT_TRUE(desk.wait_for_sessions(0));
  VoteClient nowhere({"127.0.0.1:1", certificates().pair("ours", "ann"), certificates().authority("ours")});
  {
    std::jthread other([&] { nowhere.cancel(); });
    EXPECT_FALSE(nowhere.begin(1e6));
  }
  EXPECT_EQ(nowhere.end().kind, Kind::lost);
}

TEST(VoteSession, ends_when_the_worker_leaves) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  { TestWorker worker(server); }
  EXPECT_TRUE(desk.wait_for_sessions(0));
  {
    TestWorker worker(server);
    for (int i = 0; i < 3; ++i) desk.give("ann", verdict(1, std::string(16 << 20, 'v')));
    server.wake();  // it leaves with a message on its way
  }
  EXPECT_TRUE(desk.wait_for_sessions(0));
  EXPECT_TRUE(desk.refusals().empty());
}

/// Not a test: the worker that the next test kills.
TEST(VoteSession, DISABLED_worker_to_be_killed) {
  const char* port = std::getenv("SIGNVOTE_TEST_PORT");
  if (port == nullptr) GTEST_SKIP();
  TestWorker worker({std::string("localhost:") + port, {}, ""}, "victim");
  worker.receive();
}

TEST(VoteSession, ends_when_the_worker_is_killed) {
  FakeDesk desk;
  VoteServer server({"localhost:0", {}, "", kLargest, 10, 60}, desk);
  const std::string port = "SIGNVOTE_TEST_PORT=" + std::to_string(server.port());
  const std::vector<std::string> words = {"worker", "--gtest_filter=*worker_to_be_killed",
                                          "--gtest_also_run_disabled_tests"};
  std::vector<char*> argv, environment = {const_cast<char*>(port.c_str()), nullptr};
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  ::posix_spawn_file_actions_init(&quiet);
  ::posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  ASSERT_EQ(::posix_spawn(&child, "/proc/self/exe", &quiet, nullptr, argv.data(), environment.data()), 0);
  ::posix_spawn_file_actions_destroy(&quiet);
  EXPECT_TRUE(desk.wait_for_sessions(1));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(desk.wait_for_sessions(0));
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace signvote
