#include "engine/grpc/vote_client.h"

#include <fmt/format.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/text.h"
#include "engine/grpc/address.h"
#include "engine/grpc/library.h"
#include "engine/grpc/protocol.h"
#include "engine/grpc/vote.grpc.pb.h"
#include "signvote/error.h"

namespace signvote {
namespace {

using Stream = grpc::ClientReaderWriter<v1::FromWorker, v1::ToWorker>;
using Clock = std::chrono::system_clock;  // gRPC's deadlines use this clock
using std::chrono::milliseconds;

std::shared_ptr<grpc::ChannelCredentials> credentials(const std::optional<KeyPair>& keys,
                                                      const std::string& authority) {
  if (!keys) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({authority, keys->key, keys->certificate});
}

grpc::ChannelArguments channel_arguments() {
  grpc::ChannelArguments arguments;
  // A dead server is noticed within 40 s, even while nothing is sent.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // any number
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 2'000);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);             // begin() tries again
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);          // connect to where --connect says
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection for each worker of a process
  arguments.SetMaxReceiveMessageSize(-1);                   // a verdict is as large as the model makes it
  arguments.SetMaxSendMessageSize(-1);
  return arguments;
}

bool contains(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

}  // namespace

class VoteClient::Impl {
 public:
  explicit Impl(const VoteClientOptions& options)
      : address_(connect_address(options.connect, options.keys.has_value())),
        tls_(options.keys.has_value()),
        read_ahead_(options.read_ahead),
        credentials_(credentials(options.keys, options.authority)) {}

  ~Impl() { end(); }

  void renew(const KeyPair& keys, const std::string& authority) {
    end();
    credentials_ = credentials(keys, authority);
    channel_.reset();
  }

  bool begin(double seconds) {
    end();
    // A new channel, because one that failed would tell of that failure until it has tried again.
    if (!channel_ || channel_->GetState(false) != GRPC_CHANNEL_READY) {
      channel_ = grpc::CreateCustomChannel(address_.text(), credentials_, channel_arguments());
      stub_ = v1::Vote::NewStub(channel_);
    }
    if (!connect(Clock::now() +
                 std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))))
      return false;
    grpc::ClientContext* context = nullptr;
    {
      const std::lock_guard lock(mutex_);
      over_ = read_all_ = send_failed_ = false;
      context_ = std::make_unique<grpc::ClientContext>();
      context = context_.get();
      if (cancelled_) context->TryCancel();
    }
    stream_ = stub_->Session(context);  // not under the lock, because it may wait
    try {
      reader_ = std::thread([this] { read(); });
    } catch (const std::system_error& error) {  // too many threads, which may pass
      end();
      end_ = {SessionEnd::Kind::lost, fmt::format("cannot start a thread: {}", error.what())};
      return false;
    }
    return true;
  }

  bool send(const v1::FromWorker& message) {
    if (over_ || send_failed_) return false;
    send_failed_ = !stream_->Write(message);
    return !send_failed_;
  }

  bool receive(v1::ToWorker& message) {
    std::unique_lock lock(mutex_);
    if (over_) return false;
    changed_.wait(lock, [this] { return read_all_ || !inbox_.empty(); });
    if (inbox_.empty()) {
      over_ = true;
      return false;
    }
    message.Swap(&inbox_.front());
    inbox_.pop_front();
    inbox_bytes_ -= message.ByteSizeLong();
    changed_.notify_all();
    return true;
  }

  bool has_message() {
    const std::lock_guard lock(mutex_);
    return !over_ && !inbox_.empty();
  }

  SessionEnd end() {
    if (!stream_) return end_;
    if (!over_ && !send_failed_) context_->TryCancel();  // otherwise it is ending for its own reason
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      changed_.notify_all();
    }
    if (reader_.joinable())
      reader_.join();
    else
      read();  // its thread could not be started
    inbox_.clear();
    inbox_bytes_ = 0;
    end_ = end_of_session(stream_->Finish());
    stream_.reset();
    const std::lock_guard lock(mutex_);
    context_.reset();
    return end_;
  }

  void cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (context_) context_->TryCancel();
  }

 private:
  /// Runs in a thread of its own. It always reads to the end, because gRPC gives the status only then.
  void read() {
    for (v1::ToWorker message; stream_->Read(&message);) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return over_ || inbox_.empty() || inbox_bytes_ < read_ahead_; });
      if (over_) continue;
      inbox_bytes_ += message.ByteSizeLong();
      inbox_.emplace_back().Swap(&message);
      changed_.notify_all();
    }
    const std::lock_guard lock(mutex_);
    read_all_ = true;
    changed_.notify_all();
  }

  bool connect(Clock::time_point deadline) {
    end_ = {SessionEnd::Kind::lost, fmt::format("no answer from the server at {}", address_.text())};
    auto seen = GRPC_CHANNEL_IDLE;
    for (;;) {
      const auto state = channel_->GetState(true);
      if (state == GRPC_CHANNEL_READY) return true;
      if (state == GRPC_CHANNEL_TRANSIENT_FAILURE && seen != state) ask_why();
      if (end_.kind != SessionEnd::Kind::lost || Clock::now() >= deadline) return false;
      if (is_cancelled()) {
        end_ = {SessionEnd::Kind::lost, "cancelled"};
        return false;
      }
      seen = state;
      // In slices, because a cancel cannot interrupt it.
      channel_->WaitForStateChange(state, std::min(deadline, Clock::now() + milliseconds(100)));
    }
  }

  /// A channel does not tell why it cannot connect; a call on it does, if it does not wait.
  void ask_why() {
    grpc::ClientContext context;
    context.set_deadline(Clock::now() + milliseconds(100));
    const grpc::Status status = stub_->Session(&context)->Finish();
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) end_ = no_connection(status.error_message());
  }

  SessionEnd no_connection(const std::string& why) const {
    using Kind = SessionEnd::Kind;
    const std::string at = address_.text();
    if (contains(why, "certificate verify failed"))
      return {Kind::unproven,
              fmt::format("the certificate of the server at {} has expired or is not signed by the given "
                          "authority; check the authority (--ca), the address (--connect) and the clock",
                          at)};
    if (contains(why, "is not in peer certificate"))
      return {Kind::unproven,
              fmt::format("the certificate of the server at {} is not for '{}'; check the address "
                          "(--connect), or make the server's certificate with --host {}",
                          at, address_.host, address_.host)};
    if (contains(why, "wrong version number"))
      return {Kind::unproven,
              fmt::format("the server at {} does not speak TLS; check the address (--connect)", at)};
    if (contains(why, "SSL routines") && contains(why, "alert"))
      return {Kind::unproven,
              fmt::format("the server at {} does not accept this worker's certificate; is it signed "
                          "by the server's --client-ca, and not expired?",
                          at)};
    const std::string text = fmt::format("no connection to the server at {}: {}", at, one_line(why));
    // With TLS 1.3 the client is done before the server checks its certificate and its name. If one of them
    // is refused, the client only sees the connection close.
    if (contains(why, "Socket closed") || contains(why, "reset") || contains(why, "Broken pipe"))
      return {
          Kind::hung_up,
          fmt::format("{}; {}", text,
                      tls_ ? "is this worker's name on the server's allow-list, and its certificate signed "
                             "by the server's --client-ca and not expired?"
                           : "does the server want TLS (--cert, --key, --ca)?")};
    return {Kind::lost, text};
  }

  SessionEnd end_of_session(const grpc::Status& status) const {
    using Kind = SessionEnd::Kind;
    const std::string said = one_line(status.error_message());
    if (context_->GetServerTrailingMetadata().count(kRefusalKey) != 0)
      return {Kind::refused, fmt::format("the server at {} refused: {}", address_.text(), said)};
    switch (status.error_code()) {
      case grpc::StatusCode::OK:
        return {Kind::done, "the server said goodbye"};
      case grpc::StatusCode::UNIMPLEMENTED:
        return {Kind::unproven,
                fmt::format("no signvote server of this version at {}: {}", address_.text(), said)};
      case grpc::StatusCode::PERMISSION_DENIED:
      case grpc::StatusCode::INVALID_ARGUMENT:
      case grpc::StatusCode::UNAUTHENTICATED:
        return {Kind::unproven,
                fmt::format("something refused before the server at {}: {}", address_.text(), said)};
      default:
        return {Kind::lost, fmt::format("lost the server at {}: {}", address_.text(), said)};
    }
  }

  bool is_cancelled() {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }

  const LibraryUse library_;  // first, so that it is destroyed last
  const Address address_;
  const bool tls_;
  const std::size_t read_ahead_;
  std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Vote::Stub> stub_;

  std::mutex mutex_;  // guards what cancel() and the reader use: from here to over_
  std::condition_variable changed_;
  std::unique_ptr<grpc::ClientContext> context_;
  bool cancelled_ = false;
  std::deque<v1::ToWorker> inbox_;  // read, and not yet received
  std::size_t inbox_bytes_ = 0;
  bool read_all_ = true;  // no more messages will come into it
  bool over_ = true;      // no session, or all of it was received; only the thread that uses this writes it

  std::unique_ptr<Stream> stream_;  // while there is a session
  std::thread reader_;              // likewise
  bool send_failed_ = false;        // a message could not be sent
  SessionEnd end_{SessionEnd::Kind::lost, "no session has begun"};
};

VoteClient::VoteClient(const VoteClientOptions& options) : impl_(std::make_unique<Impl>(options)) {}
VoteClient::~VoteClient() = default;

void VoteClient::renew(const KeyPair& keys, const std::string& authority) { impl_->renew(keys, authority); }
bool VoteClient::begin(double seconds) { return impl_->begin(seconds); }
bool VoteClient::send(const v1::FromWorker& message) { return impl_->send(message); }
bool VoteClient::receive(v1::ToWorker& message) { return impl_->receive(message); }
bool VoteClient::has_message() const { return impl_->has_message(); }
SessionEnd VoteClient::end() { return impl_->end(); }
void VoteClient::cancel() { impl_->cancel(); }

}  // namespace signvote
