// Who does not get as far as a session, as the server and the worker see it; and addresses that make no
// sense. All of it with nothing printed.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

#include "base/process.h"
#include "engine/vote_fakes.h"
#include "signvote/error.h"

namespace signvote {
namespace {

using Kind = SessionEnd::Kind;

/// A bare TCP connection.
class Tcp {
 public:
  explicit Tcp(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd_ < 0 || ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("cannot connect");
  }
  ~Tcp() {
    if (fd_ >= 0) ::close(fd_);
  }
  Tcp(Tcp&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Tcp& operator=(Tcp&&) = delete;

  void write(const std::string& bytes) { (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  /// Returns when the other end has closed the connection.
  void wait_for_end() {
    char bytes[256];
    while (::recv(fd_, bytes, sizeof bytes, 0) > 0) continue;
  }

 private:
  int fd_;
};

class VoteStrangers : public testing::Test {
 protected:
  void SetUp() override { testing::internal::CaptureStderr(); }
  void TearDown() override { EXPECT_EQ(testing::internal::GetCapturedStderr(), ""); }

  /// Tries to begin, with little patience since it will not work.
  SessionEnd attempt(const VoteClientOptions& options, double patience) {
    VoteClient client(options);
    EXPECT_FALSE(client.begin(patience));
    return client.end();
  }

  /// Refused in the handshake: the desk is told why, and from where if the worker has not closed the
  /// connection by then.
  void turned_away(const VoteClientOptions& options, FakeDesk& desk, const std::string& reason,
                   const std::string& says) {
    VoteClient client(options);
    std::jthread patient([&client] { EXPECT_FALSE(client.begin(kConnectSeconds)); });
    const bool told = desk.wait_for_refusals(1);
    client.cancel();
    patient.join();
    ASSERT_TRUE(told);
    const FakeDesk::Refused refused = desk.refusals()[0];
    EXPECT_EQ(refused.refusal.reason, reason);
    expect_text(refused.refusal.text, says);
    EXPECT_TRUE(refused.peer.empty() || refused.peer.starts_with("127.0.0.1")) << refused.peer;
  }

  void expect_text(const std::string& text, const std::string& words) {
    EXPECT_NE(text.find(words), std::string::npos) << "'" << text << "' lacks '" << words << "'";
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
};

TEST_F(VoteStrangers, bad_certificates_of_workers_are_told_to_the_desk) {
  const std::vector<std::pair<KeyPair, std::string>> cases = {
      {KeyPair{}, "without a worker's certificate"},
      {certificates().pair("foreign", "ann"), "has not signed"},
      {certificates().pair("ours", "expired"), "has expired"},
      {certificates().pair("ours", "server"), "has not signed"},  // not a certificate for clients
  };
  for (const auto& [keys, says] : cases) {
    FakeDesk desk;
    VoteServer server(server_options(), desk);
    auto options = client_options(server);
    options.keys = keys;
    VoteClient client(options);
    std::jthread patient([&client] { EXPECT_FALSE(client.begin(kConnectSeconds)); });
    const bool told = desk.wait_for_refusals(1);
    client.cancel();
    ASSERT_TRUE(told);
    EXPECT_EQ(desk.refusals()[0].refusal.kind, Refusal::Kind::not_allowed);
    EXPECT_EQ(desk.refusals()[0].refusal.reason, "tls_handshake");
    expect_text(desk.refusals()[0].refusal.text, says);
    EXPECT_TRUE(desk.peers().empty());
    TestWorker friend_of_ours(server);
  }
}

TEST_F(VoteStrangers, have_one_name) {
  const TemporaryFolder folder;
  const std::string ca = certificates().folder / "ours/ca";
  for (const std::string subject : {"/O=nameless", "/CN=ann/CN=bob"}) {
    for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
             {"openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
              subject, "-keyout", "key", "-out", "request"},
             {"openssl", "x509", "-req", "-in", "request", "-CA", ca + ".pem", "-CAkey", ca + ".key",
              "-CAcreateserial", "-CAserial", "serial", "-days", "2", "-out", "pem"}}) {
      const ProcessResult result = run_process(command, folder.path());
      ASSERT_EQ(result.exit_code, 0) << result.output;
    }
    FakeDesk desk;
    VoteServer server(server_options(), desk);
    VoteClientOptions options = client_options(server);
    options.keys = {read_text_file(folder / "pem"), read_text_file(folder / "key")};
    turned_away(options, desk, "no_name", "exactly one common name");
    EXPECT_TRUE(desk.seen_in_handshakes().empty());
  }
}

TEST_F(VoteStrangers, whom_the_desk_does_not_know_are_refused_in_the_handshake) {
  FakeDesk desk;
  const Refusal unknown{Refusal::Kind::not_allowed, "unknown_worker", "'bob' is {not} on: the list"};
  desk.in_the_handshake["bob"] = unknown;
  VoteServer server(server_options(), desk);
  turned_away(client_options(server, "bob"), desk, unknown.reason, unknown.text);
  EXPECT_EQ(desk.seen_in_handshakes().front(), identity(certificates().pair("ours", "bob").certificate));
  EXPECT_TRUE(desk.peers().empty());
  TestWorker ann(server);
  EXPECT_EQ(desk.seen_in_handshakes().back().name, "ann");
}

TEST_F(VoteStrangers, a_worker_that_is_hung_up_on_gets_a_hint) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  auto options = client_options(server);
  options.keys = certificates().pair("foreign", "ann");
  SessionEnd end;
  do end = attempt(options, 1);
  while (end.text.starts_with("no answer"));  // a busy machine
  EXPECT_EQ(end.kind, Kind::hung_up);
  expect_text(end.text, "is this worker's name on the server's allow-list");
  expect_text(end.text, "signed by the server's --client-ca");
  options.keys.reset();
  do end = attempt(options, 1);
  while (end.text.starts_with("no answer"));
  EXPECT_EQ(end.kind, Kind::hung_up);
  expect_text(end.text, "does the server want TLS");
}

TEST_F(VoteStrangers, a_worker_does_not_talk_to_a_foreign_server) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  auto options = client_options(server);
  options.authority = certificates().authority("foreign");
  SessionEnd end = attempt(options, kConnectSeconds);
  EXPECT_EQ(end.kind, Kind::unproven);
  expect_text(end.text, "check the authority (--ca)");
  EXPECT_TRUE(desk.peers().empty());
}

TEST_F(VoteStrangers, a_worker_checks_the_servers_name) {
  FakeDesk desk;
  auto listening = server_options();
  listening.listen = "127.0.0.2:0";
  VoteServer server(listening, desk);
  auto options = client_options(server);
  options.connect = "127.0.0.2:" + std::to_string(server.port());
  const SessionEnd end = attempt(options, kConnectSeconds);
  EXPECT_EQ(end.kind, Kind::unproven);
  expect_text(end.text, "is not for '127.0.0.2'");
  EXPECT_TRUE(desk.peers().empty());
}

TEST_F(VoteStrangers, a_worker_does_not_do_without_tls) {
  FakeDesk desk;
  VoteServer server({"127.0.0.1:0", {}, "", kLargest, 10, 60}, desk);
  const SessionEnd end = attempt(client_options(server), kConnectSeconds);
  EXPECT_EQ(end.kind, Kind::unproven);
  expect_text(end.text, "does not speak TLS");
}

TEST_F(VoteStrangers, no_server_is_a_reason_to_try_again) {
  for (const char* where : {"127.0.0.1:1", "nowhere.invalid:7000"}) {
    const SessionEnd end =
        attempt({where, certificates().pair("ours", "ann"), certificates().authority("ours")}, 0.3);
    EXPECT_EQ(end.kind, Kind::lost);
    expect_text(end.text, where);
  }
}

TEST_F(VoteStrangers, every_bad_connection_is_told_once) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "speaks HTTP"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "does not speak TLS"},
      {std::string(100, '\0'), "does not speak TLS"},
      {"SSH-2.0-OpenSSH_9.2p1\r\n", "does not speak TLS"},
  };
  std::size_t told = 0;
  for (const auto& [bytes, says] : cases) {
    for (int i = 0; i < 3; ++i) {
      Tcp connection(server.port());
      connection.write(bytes);
      connection.wait_for_end();
      ASSERT_TRUE(desk.wait_for_refusals(++told));
      EXPECT_EQ(desk.refusals().back().refusal.reason, "tls_handshake");
      expect_text(desk.refusals().back().refusal.text, says);
    }
  }
  { Tcp closed_at_once(server.port()); }
  ASSERT_TRUE(desk.wait_for_refusals(++told));
  expect_text(desk.refusals().back().refusal.text, "closed during the TLS handshake");
  for (const FakeDesk::Refused& refused : {desk.refusals().front(), desk.refusals().back()})
    EXPECT_TRUE(refused.peer.starts_with("127.0.0.1:")) << refused.peer;
  TestWorker worker(server);
  EXPECT_EQ(desk.refusals().size(), told);
}

TEST_F(VoteStrangers, silent_connections_are_ended_and_told) {
  FakeDesk desk;
  auto options = server_options();
  options.hello_seconds = 1;
  VoteServer server(options, desk);
  Tcp silent(server.port());
  silent.wait_for_end();
  ASSERT_TRUE(desk.wait_for_refusals(1));
  EXPECT_EQ(desk.refusals()[0].refusal.reason, "silence");

  FakeDesk plain_desk;
  VoteServer plain({"127.0.0.1:0", {}, "", kLargest, 10, 1}, plain_desk);
  Tcp also_silent(plain.port());
  also_silent.wait_for_end();
  ASSERT_TRUE(plain_desk.wait_for_refusals(1));
  EXPECT_EQ(plain_desk.refusals()[0].refusal.reason, "silence");
}

TEST_F(VoteStrangers, idle_connections_do_not_disturb) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  TestWorker before(server, "ann");
  std::vector<Tcp> idle;
  for (int i = 0; i < 300; ++i) idle.emplace_back(server.port());
  TestWorker after(server, "bob");
  for (std::uint64_t round = 0; round < 20; ++round) {
    for (TestWorker* worker : {&before, &after}) ASSERT_TRUE((*worker)->send(ballot(round)));
    ASSERT_TRUE(desk.wait_for_ballots(2 * (round + 1)));
    desk.give("ann", verdict(round));
    desk.give("bob", verdict(round));
    server.wake();
    ASSERT_TRUE(before.receive());
    ASSERT_TRUE(after.receive());
  }
}

TEST_F(VoteStrangers, a_port_in_use_is_an_error) {
  FakeDesk desk;
  VoteServer server(server_options(), desk);
  auto options = server_options();
  for (const char* host : {"127.0.0.1:", "localhost:"}) {
    options.listen = host + std::to_string(server.port());
    try {
      VoteServer second(options, desk);
      FAIL() << "two servers on " << options.listen;
    } catch (const EngineError& error) {
      expect_text(error.what(), "the port is in use");
    }
  }
  options.listen = "192.0.2.1:0";  // nobody's
  try {
    VoteServer elsewhere(options, desk);
    FAIL() << "a server on another's address";
  } catch (const EngineError& error) {
    expect_text(error.what(), "cannot listen on 192.0.2.1:0: Cannot assign requested address");
  }
}

TEST_F(VoteStrangers, addresses_must_make_sense) {
  FakeDesk desk;
  for (const std::string address :
       {"", ":", "localhost", "localhost:", ":7000", "localhost:seven", "localhost:-1", "localhost:65536",
        "local host:7000", "unix:/tmp/socket", "::1:7000", "[localhost]:7000", "[::1]",
        "http://localhost:7000", "a:b:7000"}) {
    auto options = server_options();
    options.listen = address;
    EXPECT_THROW(VoteServer(options, desk), ConfigError) << address;
    EXPECT_THROW(VoteClient({address, options.keys, options.client_authority}), ConfigError) << address;
  }
  EXPECT_THROW(VoteClient({"localhost:0", certificates().pair("ours", "ann"), ""}), ConfigError);
}

TEST_F(VoteStrangers, without_tls_only_on_loopback) {
  FakeDesk desk;
  for (const std::string host : {"0.0.0.0", "[::]", "192.0.2.1", "example.org", "128.0.0.1"}) {
    EXPECT_THROW(VoteServer({host + ":0", {}, "", kLargest, 10, 60}, desk), ConfigError) << host;
    EXPECT_THROW(VoteClient({host + ":7000", {}, ""}), ConfigError) << host;
  }
  for (const std::string host : {"127.0.0.1", "127.1.2.3", "localhost"})
    EXPECT_GT(VoteServer({host + ":0", {}, "", kLargest, 10, 60}, desk).port(), 0);
}

}  // namespace
}  // namespace signvote
