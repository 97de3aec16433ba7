// A whole run without torch: a server's engine and worker sessions over TLS in one process, against the
// local engine with the same ballots. The server is stopped and opened again on the way.
#include "engine/grpc/server_engine.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "base/digest.h"
#include "base/files.h"
#include "engine/local/local_engine.h"
#include "engine/vote_fakes.h"
#include "signvote/error.h"
#include "signvote/worker_session.h"

namespace signvote {
namespace {

constexpr std::size_t kSize = 1000;
constexpr std::uint32_t kWorkers = 3;
constexpr std::uint64_t kRunId = 42;

Step step_of(std::uint64_t round) { return {0.25F / static_cast<float>(round % 4 + 1), 0.03125F}; }

TallyOptions tally_options() { return {Method::it, kWorkers, 0, kSize, 3, 10}; }

/// A worker's gradient at x: towards a target of its own, with zeros; worker 1 has none in round 4.
std::optional<SignVector> ballot_at(std::span<const float> x, std::uint32_t worker, std::uint64_t round) {
  if (worker == 1 && round == 4) return std::nullopt;
  std::vector<float> gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto wave = static_cast<float>((i * (worker + 2) + 7 * round) % 11);
    gradient[i] = wave == 0 ? 0 : x[i] - wave + 3 * static_cast<float>(worker);
  }
  SignVector ballot;
  EXPECT_FALSE(pack(gradient, ballot));
  return ballot;
}

BatchLoss loss_of(std::uint32_t worker, std::uint64_t round) {
  return {10 + worker, static_cast<double>(round) + 0.5 * worker};
}

/// What the rounds of a run came to.
struct History {
  std::vector<SignVector> verdicts;
  std::vector<std::vector<BatchLoss>> losses;
  std::vector<float> x = std::vector<float>(kSize);

  void take(std::uint64_t round, const Outcome& outcome) {
    step(x, *outcome.verdict, step_of(round));
    verdicts.push_back(*outcome.verdict);
    losses.push_back(outcome.losses);
  }
};

History local_run(std::uint64_t rounds) {
  TemporaryFolder folder;
  LocalEngine engine(tally_options(), kRunId, folder.path());
  History history;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    std::vector<std::optional<SignVector>> ballots;
    for (std::uint32_t m = 0; m < kWorkers; ++m) ballots.push_back(ballot_at(history.x, m, round));
    for (std::uint32_t m = 0; m < kWorkers; ++m)
      engine.send_ballot(m, ballots[m] ? &*ballots[m] : nullptr,
                         ballots[m] ? loss_of(m, round) : BatchLoss{});
    history.take(round, engine.receive_verdict(false));
  }
  return history;
}

/// Lines from any thread.
class Log {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    text_ += line + '\n';
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  bool has(const std::string& words) const {
    const std::lock_guard lock(mutex_);
    return text_.find(words) != std::string::npos;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

/// A server's run, which can be left and opened again.
class ServerRun {
 public:
  ServerRun(const std::filesystem::path& folder, std::uint64_t rounds, int port)
      : folder_(folder), rounds_(rounds) {
    declare_server_metrics(metrics_);
    ServerEngineOptions options;
    options.tally = tally_options();
    options.run_id = kRunId;
    options.settings = "a = 1";
    options.rounds = rounds;
    options.step_of = step_of;
    options.folder = folder;
    options.listen = server_options();
    options.listen.listen = "127.0.0.1:" + std::to_string(port);
    write_file_atomically(folder / "allow.toml", std::string_view("ann = 0\nbob = 1\ncarol = 2\n"));
    options.allow = folder / "allow.toml";
    options.stop_requested = [this] { return stop_.load(); };
    options.log = [this](const std::string& line) { log.add(line); };
    engine_ = make_server_engine(std::move(options), metrics_);
  }

  void open() {
    RunState fresh;
    fresh.run_id = kRunId;
    fresh.parameters.assign(kSize, 0.0F);
    engine_->open(
        fresh,
        [this](const RunState& saved) {
          EXPECT_EQ(saved.run_id, kRunId);
          history.x = saved.parameters;
          first = round = saved.progress.rounds;
        },
        [this](const Outcome& outcome) { history.take(round++, outcome); });
    engine_->start();
  }

  int port() const {
    const std::string text = read_text_file(folder_ / "server.json");
    return std::stoi(text.substr(text.find("\"port\":") + 7));
  }

  /// Until so many rounds are decided, saving after every third.
  void go(std::uint64_t until) {
    while (round < until) {
      if (round % kDigestEvery == 0) engine_->send_digest(digest(history.x));
      const Outcome outcome = engine_->receive_verdict(false);
      ASSERT_NE(outcome.verdict, nullptr);
      history.take(round++, outcome);
      if (round % 3 == 0) save();
    }
  }
  void save() {
    RunState state;
    state.run_id = kRunId;
    state.progress.rounds = round;
    state.parameters = history.x;
    engine_->save(std::move(state));
  }
  void stop() { stop_ = true; }
  Engine& engine() { return *engine_; }

  std::string metrics() const { return metrics_.text(); }

  History history;
  Log log;
  std::uint64_t first = 0;  // the round of the saved state
  std::uint64_t round = 0;

 private:
  std::filesystem::path folder_;
  std::uint64_t rounds_;
  std::atomic<bool> stop_ = false;
  Metrics metrics_;
  std::unique_ptr<Engine> engine_;
};

WorkerSessionOptions session_options(int port, const std::string& name) {
  WorkerSessionOptions options;
  options.connect = "127.0.0.1:" + std::to_string(port);
  const KeyPair keys = certificates().pair("ours", name);
  options.certificate = keys.certificate;
  options.key = keys.key;
  options.authority = certificates().authority("ours");
  options.program = "a test";
  return options;
}

/// Works until the run is finished; the parameters it then has. In the round `harmed` a bit of its model
/// flips.
std::vector<float> work(WorkerSession& session, std::uint64_t harmed = UINT64_MAX) {
  using Event = WorkerSession::Event;
  const JoinedRun run = session.join();
  std::vector<float> x(run.parameters, -1);
  while (true) {
    const Event event = session.next(x);
    if (event == Event::finished || event == Event::stopped) return x;
    if (event != Event::vote) continue;
    if (session.round() == harmed) x[5] = -x[5] - 1;
    const auto ballot = ballot_at(x, run.worker, session.round());
    const BatchLoss loss = loss_of(run.worker, session.round());
    if (ballot)
      session.vote(*ballot, loss.samples, loss.loss);
    else
      session.abstain();
  }
}

TEST(ServerEngine, gives_the_local_engines_verdicts_also_after_restarts) {
  constexpr std::uint64_t kRounds = 12;
  const History expected = local_run(kRounds);
  TemporaryFolder folder;
  auto server = std::make_unique<ServerRun>(folder.path(), kRounds, 0);
  server->open();
  const int port = server->port();
  std::vector<std::vector<float>> models(kWorkers);
  std::vector<std::jthread> workers;
  const char* names[] = {"ann", "bob", "carol"};
  for (std::uint32_t m = 0; m < kWorkers; ++m)
    workers.emplace_back([&, m] {
      WorkerSession session(session_options(port, names[m]));
      EXPECT_EQ(session.join().worker, m);
      EXPECT_EQ(session.join().settings, "a = 1");
      EXPECT_EQ(session.join().rounds, kRounds);
      models[m] = work(session);
    });
  for (const std::uint64_t until : {std::uint64_t{4}, std::uint64_t{5}, std::uint64_t{9}}) {
    server->go(until);
    server.reset();  // with a ballot or two in its log
    server = std::make_unique<ServerRun>(folder.path(), kRounds, port);
    server->open();
    EXPECT_EQ(server->round, until) << "every decided round is there";
    EXPECT_EQ(server->first, until / 3 * 3) << "from the last snapshot on";
  }
  server->go(kRounds);
  server->engine().finish();
  workers.clear();
  EXPECT_EQ(server->history.x, expected.x);
  for (const auto& model : models) EXPECT_EQ(model, expected.x);
  const std::size_t replayed = expected.verdicts.size() - server->history.verdicts.size();
  for (std::size_t i = 0; i < server->history.verdicts.size(); ++i) {
    EXPECT_EQ(server->history.verdicts[i], expected.verdicts[replayed + i]) << i;
    EXPECT_EQ(server->history.losses[i], expected.losses[replayed + i]) << i;
  }
}

TEST(ServerEngine, a_stop_that_is_asked_for_decides_nothing) {
  TemporaryFolder folder;
  ServerRun server(folder.path(), 5, 0);
  server.open();
  std::jthread stopper([&] { server.stop(); });
  const Outcome outcome = server.engine().receive_verdict(false);
  EXPECT_TRUE(outcome.stop);
  EXPECT_EQ(outcome.verdict, nullptr);
  EXPECT_TRUE(server.engine().receive_verdict(true).stop);
}

TEST(ServerEngine, finds_a_model_that_is_not_its_own_and_replaces_it) {
  constexpr std::uint64_t kRounds = 3 * kDigestEvery;
  TemporaryFolder folder;
  ServerRun server(folder.path(), kRounds, 0);
  server.open();
  std::vector<std::vector<float>> models(kWorkers);
  std::vector<std::jthread> workers;
  const char* names[] = {"ann", "bob", "carol"};
  for (std::uint32_t m = 0; m < kWorkers; ++m)
    workers.emplace_back([&, m] {
      WorkerSession session(session_options(server.port(), names[m]));
      models[m] = work(session, m == 1 ? kDigestEvery + 3 : UINT64_MAX);
    });
  server.go(kRounds);
  server.engine().finish();
  workers.clear();
  for (const auto& model : models) EXPECT_EQ(model, server.history.x);
  EXPECT_TRUE(
      server.log.has("bob has another model than the server in round 33: its ballots since round 17 "
                     "are suspect"));
  EXPECT_NE(server.metrics().find("signvote_wrong_models_total{worker=\"bob\"} 1\n"), std::string::npos);
  EXPECT_EQ(server.metrics().find("signvote_wrong_models_total{worker=\"ann\"}"), std::string::npos);
}

/// A socket that listens on the port; -1 if somebody else does.
int take_port(int port) {
  const int taken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(taken, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(taken, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(taken, 1) == 0)
    return taken;
  ::close(taken);
  return -1;
}

TEST(ServerEngine, that_cannot_listen_again_goes_on_and_tries_until_it_can) {
  TemporaryFolder folder;
  ServerRun server(folder.path(), 5, 0);
  server.open();
  const int port = server.port();
  std::jthread runs_the_server([&] { EXPECT_TRUE(server.engine().receive_verdict(false).stop); });
  // Each list shuts somebody out, so the server listens anew. Sooner or later somebody is quicker.
  int taken = -1;
  std::string on_list = "bob";
  while (taken < 0) {
    const std::string before = server.log.text();
    on_list = on_list == "bob" ? "ann" : "bob";
    write_file_atomically(folder / "allow.toml", on_list + " = 0\n");
    ASSERT_TRUE(eventually([&] {
      taken = take_port(port);
      return taken >= 0 || server.log.text().find("listens anew", before.size()) != std::string::npos;
    })) << server.log.text();
  }
  EXPECT_TRUE(eventually([&] { return server.log.has("tries again"); })) << server.log.text();
  EXPECT_TRUE(server.log.has("the port is in use")) << server.log.text();
  ::close(taken);
  EXPECT_TRUE(eventually([&] { return server.log.has("listens again"); })) << server.log.text();
  WorkerSession session(session_options(port, on_list));
  EXPECT_EQ(session.join().worker, 0U);
  server.stop();
}

TEST(ServerEngine, that_is_stopped_does_not_wait_for_workers_to_learn_of_the_end) {
  TemporaryFolder folder;
  ServerRun server(folder.path(), 5, 0);
  server.open();
  std::jthread runs_the_server([&] { EXPECT_TRUE(server.engine().receive_verdict(false).stop); });
  WorkerSession(session_options(server.port(), "ann")).join();
  server.stop();
  runs_the_server.join();
  server.engine().finish();
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "server.json")) << "so that a later one tells ann";
}

/// Somebody else where the server was: with a certificate of a foreign authority, or with the server's own
/// and another service, as a proxy's.
class Impostor {
 public:
  Impostor(const std::string& authority, int port) {
    const KeyPair keys = certificates().pair(authority, "server");
    grpc::SslServerCredentialsOptions ssl;
    ssl.pem_key_cert_pairs.push_back({keys.key, keys.certificate});
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::SslServerCredentials(ssl));
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
  }

 private:
  grpc::CallbackGenericService service_;  // knows no method
  std::unique_ptr<grpc::Server> server_;
};

TEST(WorkerSession, that_was_let_in_is_ended_only_by_the_server_itself) {
  constexpr std::uint64_t kRounds = 6;
  TemporaryFolder folder;
  auto server = std::make_unique<ServerRun>(folder.path(), kRounds, 0);
  server->open();
  const int port = server->port();
  const char* names[] = {"ann", "bob", "carol"};
  std::vector<Log> logs(kWorkers);
  std::vector<std::vector<float>> models(kWorkers);
  std::vector<std::jthread> workers;
  for (std::uint32_t m = 0; m < kWorkers; ++m)
    workers.emplace_back([&, m] {
      WorkerSessionOptions options = session_options(port, names[m]);
      options.log = [&, m](const std::string& line) { logs[m].add(line); };
      WorkerSession session(options);
      models[m] = work(session);
    });
  server->go(3);
  server.reset();
  for (const auto& [kind, words] :
       std::vector<std::pair<std::string, std::string>>{{"foreign", "is not signed by the given authority"},
                                                        {"ours", "no signvote server of this version"}}) {
    const Impostor impostor(kind, port);
    for (const Log& log : logs)
      ASSERT_TRUE(eventually([&] { return log.has(words); })) << kind << ": " << log.text();
  }
  server = std::make_unique<ServerRun>(folder.path(), kRounds, port);
  server->open();
  server->go(kRounds);
  server->engine().finish();
  workers.clear();
  for (const auto& model : models) EXPECT_EQ(model, local_run(kRounds).x);
}

TEST(WorkerSession, has_its_time_to_give_up_from_the_loss_of_its_session) {
  TemporaryFolder folder;
  std::optional<ServerRun> server(std::in_place, folder.path(), 5, 0);
  server->open();
  std::jthread runs_the_server([&] { EXPECT_TRUE(server->engine().receive_verdict(false).stop); });
  WorkerSessionOptions options = session_options(server->port(), "ann");
  options.give_up_seconds = 1;
  std::unique_ptr<WorkerSession> session;
  options.log = [&](const std::string& line) {
    if (line.ends_with("tries again")) session->stop();
  };
  ASSERT_TRUE(eventually([&] {  // a busy machine may need several times a second
    try {
      session = std::make_unique<WorkerSession>(options);
      return session->join().parameters == kSize;
    } catch (const EngineError&) {
      return false;
    }
  }));
  std::vector<float> x(kSize);
  EXPECT_EQ(session->next(x), WorkerSession::Event::vote);
  session->abstain();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // a long round
  server->stop();
  runs_the_server.join();
  server.reset();
  EXPECT_EQ(session->next(x), WorkerSession::Event::stopped) << "it has tried again";
}

TEST(WorkerSession, of_a_foreign_authority_fails_soon_and_says_why) {
  TemporaryFolder folder;
  ServerRun server(folder.path(), 5, 0);
  server.open();
  WorkerSessionOptions options = session_options(server.port(), "ann");
  const KeyPair keys = certificates().pair("foreign", "ann");
  options.certificate = keys.certificate;
  options.key = keys.key;
  options.give_up_seconds = 1e9;
  WorkerSession session(options);
  try {
    session.join();
    FAIL() << "it was let in";
  } catch (const EngineError& error) {
    EXPECT_NE(std::string(error.what()).find("--client-ca"), std::string::npos) << error.what();
  }
}

TEST(WorkerSession, stops_while_it_waits) {
  for (const bool joined : {false, true}) {
    TemporaryFolder folder;
    std::optional<ServerRun> server;
    int port = 1;  // where nobody listens
    if (joined) {
      server.emplace(folder.path(), 5, 0);
      server->open();
      port = server->port();
    }
    WorkerSession session(session_options(port, "ann"));
    std::jthread runs_the_server([&] {
      if (!server) return;
      EXPECT_TRUE(server->engine().receive_verdict(false).stop);
    });
    std::atomic<bool> voted = false;
    std::jthread stopper([&] {
      while (joined && !voted) std::this_thread::yield();
      session.stop();
    });
    std::vector<float> x(session.join().parameters);
    EXPECT_EQ(x.size(), joined ? kSize : 0U);
    while (session.next(x) == WorkerSession::Event::vote) {
      session.abstain();
      voted = true;
    }
    if (server) server->stop();
  }
}

TEST(WorkerSession, gives_up_and_says_why) {
  WorkerSessionOptions options = session_options(1, "ann");
  options.give_up_seconds = 0;
  std::vector<std::string> log;
  options.log = [&](const std::string& line) { log.push_back(line); };
  WorkerSession session(options);
  EXPECT_THROW(session.join(), EngineError);
  options.connect = "nowhere";
  EXPECT_THROW(WorkerSession{options}, ConfigError);
  options = {};
  options.connect = "192.0.2.1:7000";
  EXPECT_THROW(WorkerSession{options}, ConfigError) << "without TLS";
}

TEST(WorkerSession, that_is_not_wanted_throws) {
  TemporaryFolder folder;
  ServerRun server(folder.path(), 5, 0);
  server.open();
  write_file_atomically(folder / "allow.toml", std::string_view("bob = 1\n"));
  std::jthread runs_the_server(
      [&] { EXPECT_TRUE(server.engine().receive_verdict(false).stop); });  // reads the list again
  WorkerSession session(session_options(server.port(), "ann"));
  EXPECT_THROW(
      {
        std::vector<float> x(session.join().parameters);
        while (session.next(x) == WorkerSession::Event::vote) session.abstain();
      },
      EngineError);
  server.stop();
}

}  // namespace
}  // namespace signvote
