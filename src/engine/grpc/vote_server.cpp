#include "engine/grpc/vote_server.h"

#include <fmt/format.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/grpc/connection.h"
#include "engine/grpc/library.h"
#include "engine/grpc/vote.grpc.pb.h"
#include "signvote/error.h"

namespace signvote {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kAroundBallot = 1024;     // what a FromWorker adds to a ballot; also enough for a hello
constexpr std::chrono::seconds kGrace{1};       // for the last messages when the server ends
constexpr std::size_t kLargestHeaders = 2048;   // bytes; gRPC's clients send a few hundred
constexpr std::chrono::seconds kPeerSearch{1};  // at most one search for a stranger's address in this time

/// The raw interface, so that a verdict is serialised once and all sessions that send it share its bytes.
using RawService = v1::Vote::WithRawCallbackMethod_Session<v1::Vote::Service>;

/// The desk as handshakes reach it, until the server ends: one may still be on its way then.
class Door {
 public:
  explicit Door(Desk& desk) : desk_(&desk) {}
  void close() {
    const std::lock_guard lock(mutex_);
    desk_ = nullptr;
  }
  std::optional<Refusal> admit(const std::string& certificate) {
    const auto who = identity(certificate);
    if (auto refusal = bad_identity(who)) return refusal;
    const std::lock_guard lock(mutex_);
    if (desk_ == nullptr)
      return Refusal{Refusal::Kind::shutting_down, "shutdown", "the server is shutting down"};
    return desk_->admit(*who);
  }

 private:
  std::mutex mutex_;
  Desk* desk_;
};

/// Asks the desk at the end of a TLS handshake, after OpenSSL has found the certificate good.
class Doorkeeper : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit Doorkeeper(std::shared_ptr<Door> door) : door_(std::move(door)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* result) override {
    try {
      const grpc::string_ref certificate = request->peer_cert();
      if (const auto refusal = door_->admit({certificate.data(), certificate.size()}))
        *result = refused_in_handshake(refusal->reason, refusal->text);
    } catch (const std::exception& error) {
      *result = refused_in_handshake("internal_error", error.what());
    }
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  std::shared_ptr<Door> door_;
};

std::shared_ptr<grpc::ServerCredentials> credentials(const VoteServerOptions& options,
                                                     const std::shared_ptr<Door>& door) {
  namespace tls = grpc::experimental;
  if (!options.keys) return grpc::InsecureServerCredentials();
  tls::TlsServerCredentialsOptions about(std::make_shared<tls::StaticDataCertificateProvider>(
      options.client_authority,
      std::vector<tls::IdentityKeyCertPair>{{options.keys->key, options.keys->certificate}}));
  about.watch_root_certs();
  about.watch_identity_key_cert_pairs();
  about.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  about.set_certificate_verifier(tls::ExternalCertificateVerifier::Create<Doorkeeper>(door));
  return tls::TlsServerCredentials(about);  // TLS 1.2 and 1.3
}

void set_channel_arguments(grpc::ServerBuilder& builder, const VoteServerOptions& options) {
  // A dead worker is noticed within 40 s, even while nothing is sent.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // any number
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 60'000);  // connections without a stream
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, options.hello_seconds * 1000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kLargestHeaders);
  // Without a table of earlier headers, a few bytes cannot stand for many.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_HPACK_TABLE_SIZE_DECODER, 0);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // otherwise a port in use would be no error
  // gRPC's own limit is off: it too looks only at whole messages, and does not tell the desk.
  builder.SetMaxReceiveMessageSize(-1);
  // Bounds the memory of workers that send without end: gRPC cuts a stream when more than this waits. It is
  // enough for hundreds of idle connections and for two ballots of every worker.
  grpc::ResourceQuota quota("workers");
  quota.Resize((std::size_t{256} << 20) + 2 * options.workers * options.largest_message);
  builder.SetResourceQuota(quota);
  // No compression, because a few compressed bytes could unpack to gigabytes.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP})
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
}

}  // namespace

class VoteServer::Impl final : public RawService {
 public:
  Impl(const VoteServerOptions& options, Desk& desk)
      : setup_{desk, connections_, options.keys.has_value(), options.largest_message + kAroundBallot},
        hello_time_(options.hello_seconds),
        door_(std::make_shared<Door>(desk)),
        watch_([this](const FailedHandshake& handshake) { note_failed(handshake); }) {
    made();
    const Address address = listen_address(options.listen, options.keys.has_value());
    watcher_ = std::thread([this] { watch_connections(); });  // before a session can begin, for it may fail
    try {
      listen(options, address);
    } catch (...) {
      end_watching();
      throw;
    }
  }

  ~Impl() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    door_->close();
    for (const auto& connection : connections_.all()) {
      connection->end_if_unwanted();  // those are told why
      connection->shut_down();
    }
    server_->Shutdown(std::chrono::system_clock::now() + kGrace);
    connections_.wait_until_empty();
    end_watching();
  }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Session(
      grpc::CallbackServerContext* context) override {
    made();
    const auto connection = Connection::begin(setup_, *context);
    {
      const std::lock_guard lock(mutex_);
      if (!closing_) {
        hellos_due_.emplace_back(Clock::now() + hello_time_, connection);
        something_.notify_one();
        return connection.get();
      }
    }
    connection->shut_down();
    return connection.get();
  }

  int port() const { return port_; }
  bool stopped_accepting() const { return stopped_accepting_; }
  ConnectionList& connections() { return connections_; }

  void wake() {
    {
      const std::lock_guard lock(mutex_);
      awake_ = true;
    }
    something_.notify_one();
  }

 private:
  /// Sessions begin after the constructor has made what they use. gRPC sees to that, but the thread sanitizer
  /// does not see how; a mutex it understands.
  void made() { const std::lock_guard lock(mutex_); }

  void listen(const VoteServerOptions& options, const Address& address) {
    grpc::ServerBuilder builder;
    set_channel_arguments(builder, options);
    builder.AddListeningPort(address.text(), credentials(options, door_), &port_);
    builder.RegisterService(this);
    const ListenLog log;
    server_ = builder.BuildAndStart();
    // "localhost" has two addresses, and gRPC is content if one of them is free.
    if (log.port_in_use())
      throw EngineError(fmt::format(
          "cannot listen on {}: the port is in use; stop who uses it or take another", address.text()));
    if (!server_) throw EngineError(fmt::format("cannot listen on {}: {}", address.text(), log.problem()));
  }

  void end_watching() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    something_.notify_one();
    watcher_.join();
  }

  /// Called at the end of a failed handshake, when its connection is shut but not yet closed.
  void note_failed(FailedHandshake handshake) {
    if (handshake.reason == kAcceptFailed) stopped_accepting_ = true;
    bool search = false;
    {
      const std::lock_guard lock(mutex_);
      const auto now = Clock::now();
      search = handshake.peer.empty() && now >= next_search_;
      if (search) next_search_ = now + kPeerSearch;
    }
    if (search) handshake.peer = peer_being_closed(port_);  // without the mutex: it looks at all open files
    {
      const std::lock_guard lock(mutex_);
      failed_.push_back(std::move(handshake));
    }
    something_.notify_one();
  }

  /// The server's only own thread. After wake() it asks the sessions, so that wake() may be called from
  /// within them and under any lock. It also ends unwanted sessions and connections that say nothing, and
  /// tells the desk of failed handshakes.
  void watch_connections() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const auto now = Clock::now();
      std::vector<std::weak_ptr<Connection>> late;
      for (; !hellos_due_.empty() && hellos_due_.front().first <= now; hellos_due_.pop_front())
        late.push_back(std::move(hellos_due_.front().second));
      const auto failed = std::exchange(failed_, {});
      const bool awake = std::exchange(awake_, false);
      if (late.empty() && failed.empty() && !awake) {
        if (hellos_due_.empty())
          something_.wait(lock);
        else
          something_.wait_until(lock, hellos_due_.front().first);
        continue;
      }
      lock.unlock();
      for (const auto& connection : late)
        if (const auto alive = connection.lock()) alive->hello_is_due();
      for (const FailedHandshake& handshake : failed) tell_desk(handshake);
      if (awake) {
        for (const auto& connection : connections_.all()) {
          connection->end_if_unwanted();
          connection->pump();
        }
      }
      lock.lock();
    }
  }

  void tell_desk(const FailedHandshake& handshake) noexcept {
    try {
      setup_.desk.refused(handshake.peer, {Refusal::Kind::not_allowed, handshake.reason, handshake.text});
    } catch (const std::exception&) {  // a log that cannot be written is no reason to stop serving
    }
  }

  const LibraryUse library_;  // first, so that it is destroyed last
  ConnectionList connections_;
  const Connection::Setup setup_;
  const std::chrono::seconds hello_time_;
  const std::shared_ptr<Door> door_;
  int port_ = 0;
  std::atomic<bool> stopped_accepting_ = false;

  std::mutex mutex_;  // guards all below; no desk, session or gRPC is called while it is held
  std::condition_variable something_;
  std::deque<std::pair<Clock::time_point, std::weak_ptr<Connection>>> hellos_due_;
  std::vector<FailedHandshake> failed_;
  Clock::time_point next_search_{};  // for a peer's address
  bool awake_ = false;
  bool closing_ = false;
  bool stopping_ = false;

  HandshakeWatch watch_;
  std::unique_ptr<grpc::Server> server_;
  std::thread watcher_;
};

VoteServer::VoteServer(const VoteServerOptions& options, Desk& desk)
    : impl_(std::make_unique<Impl>(options, desk)) {}
VoteServer::~VoteServer() = default;

int VoteServer::port() const { return impl_->port(); }
std::size_t VoteServer::sessions() const { return impl_->connections().sessions(); }
void VoteServer::wake() { impl_->wake(); }
bool VoteServer::wait_for_goodbyes(double seconds) {
  return impl_->connections().wait_for_no_sessions(seconds);
}
bool VoteServer::stopped_accepting() const { return impl_->stopped_accepting(); }

}  // namespace signvote
