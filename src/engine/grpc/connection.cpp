#include "engine/grpc/connection.h"

#include <fmt/format.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "certs/certificates.h"
#include "engine/grpc/address.h"
#include "engine/grpc/protocol.h"
#include "engine/grpc/vote.pb.h"

namespace signvote {
namespace {

constexpr std::size_t kLongestName = 64;  // the most that X.509 allows in a common name

grpc::StatusCode status_code(Refusal::Kind kind) {
  switch (kind) {
    case Refusal::Kind::not_allowed:
      return grpc::StatusCode::PERMISSION_DENIED;
    case Refusal::Kind::bad_message:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Refusal::Kind::replaced:
      return grpc::StatusCode::ABORTED;
    case Refusal::Kind::shutting_down:
      return grpc::StatusCode::UNAVAILABLE;
  }
  return grpc::StatusCode::INTERNAL;
}

Refusal not_allowed(std::string reason, std::string text) {
  return {Refusal::Kind::not_allowed, std::move(reason), std::move(text)};
}

Refusal bad_message(std::string reason, std::string text) {
  return {Refusal::Kind::bad_message, std::move(reason), std::move(text)};
}

/// Names are shown in logs and in the metrics, so control characters and long names are refused.
bool is_good_name(const std::string& name) {
  return !name.empty() && name.size() <= kLongestName &&
         std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; }) &&
         // U+0080 to U+009F, which some terminals obey.
         std::ranges::adjacent_find(name, [](unsigned char a, unsigned char b) {
           return a == 0xc2 && b >= 0x80 && b < 0xa0;
         }) == name.end();
}

}  // namespace

std::optional<Refusal> bad_identity(const std::optional<Identity>& who) {
  if (!who) return not_allowed("no_name", "a worker's certificate must have exactly one common name (CN)");
  if (!is_good_name(who->name))
    return not_allowed("bad_name",
                       fmt::format("a worker's name has 1 to {} characters, all printable", kLongestName));
  return std::nullopt;
}

void ConnectionList::add(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  connections_.emplace(connection.get(), connection);
}

void ConnectionList::joined() {
  const std::lock_guard lock(mutex_);
  ++sessions_;
}

void ConnectionList::remove(const Connection* connection, bool had_joined) {
  const std::lock_guard lock(mutex_);
  connections_.erase(connection);
  if (had_joined) --sessions_;
  changed_.notify_all();  // under the lock, because whoever waits may destroy this
}

std::vector<std::shared_ptr<Connection>> ConnectionList::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Connection>> found;
  for (const auto& [key, connection] : connections_)
    if (auto alive = connection.lock()) found.push_back(std::move(alive));
  return found;
}

std::size_t ConnectionList::sessions() const {
  const std::lock_guard lock(mutex_);
  return sessions_;
}

bool ConnectionList::wait_for_no_sessions(double seconds) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return sessions_ == 0; });
}

void ConnectionList::wait_until_empty() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return connections_.empty(); });
}

std::shared_ptr<Connection> Connection::begin(const Setup& setup, grpc::CallbackServerContext& context) {
  std::shared_ptr<Connection> connection(new Connection(setup, context));
  {
    const std::lock_guard lock(connection->mutex_);
    connection->self_ = connection;
  }
  setup.connections.add(connection);
  connection->read_next();
  return connection;
}

Connection::Connection(const Setup& setup, grpc::CallbackServerContext& context)
    : setup_(setup), context_(context), peer_(readable_peer(context.peer())) {}

Connection::~Connection() {
  const bool had_joined = session_ != nullptr;
  session_.reset();
  setup_.connections.remove(this, had_joined);
}

std::optional<Identity> Connection::identify(const v1::Hello& hello) const {
  if (!setup_.tls) return Identity{hello.name(), ""};
  // gRPC's x509_common_name is not used, because of several names it gives only the first.
  const auto certificates = context_.auth_context()->FindPropertyValues("x509_pem_cert");
  if (certificates.size() != 1) return std::nullopt;
  return identity({certificates.front().data(), certificates.front().size()});
}

void Connection::OnReadDone(bool ok) {
  guarded([&] {
    if (!ok) return finish({grpc::StatusCode::CANCELLED, "the worker left"});
    if (const auto refusal = take()) return refuse(*refusal);
    read_next();
  });
}

std::optional<Refusal> Connection::take() {
  Session* session = nullptr;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return {};
    first = !std::exchange(heard_, true);
    session = session_.get();
  }
  if (in_.Length() > setup_.largest_message)
    return bad_message("too_large", fmt::format("a message of {} bytes; the largest that makes sense has {}",
                                                in_.Length(), setup_.largest_message));
  v1::FromWorker message;
  {
    grpc::ProtoBufferReader reader(&in_);
    if (!reader.status().ok() || !message.ParseFromZeroCopyStream(&reader))
      return bad_message("not_a_message", "these bytes are no message of a worker");
  }
  in_.Clear();
  switch (message.kind_case()) {
    case v1::FromWorker::kHello:
      if (!first) return bad_message("second_hello", "a worker says hello once");
      return join(message.hello());
    case v1::FromWorker::kBallot:
      if (first) return bad_message("no_hello", "a worker says hello before it votes");
      return session->ballot(*message.mutable_ballot());
    case v1::FromWorker::KIND_NOT_SET:
      break;
  }
  return bad_message("empty_message", "a message that is neither hello nor ballot");
}

std::optional<Refusal> Connection::join(const v1::Hello& hello) {
  const auto who = identify(hello);
  if (auto refusal = bad_identity(who)) return refusal;
  auto answer = setup_.desk.join(*who, peer_, hello);
  if (const Refusal* refusal = std::get_if<Refusal>(&answer)) return *refusal;
  {
    const std::lock_guard lock(mutex_);
    session_ = std::move(std::get<std::unique_ptr<Session>>(answer));
    setup_.connections.joined();
  }
  pump();
  return {};
}

void Connection::read_next() {
  const std::lock_guard lock(mutex_);
  if (!over_) StartRead(&in_);
}

void Connection::pump() {
  guarded([&] {
    Session* session = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (!session_ || over_) return;
      if (std::exchange(busy_, true)) {
        again_ = true;
        return;
      }
      session = session_.get();
      again_ = false;
    }
    for (;;) {
      Session::Next next = session->next();
      if (std::holds_alternative<Session::Goodbye>(next)) return finish(grpc::Status::OK);
      if (const Refusal* refusal = std::get_if<Refusal>(&next)) return refuse(*refusal);
      const std::lock_guard lock(mutex_);
      if (over_) return;
      if (auto* message = std::get_if<grpc::ByteBuffer>(&next)) {
        out_.Swap(message);
        StartWrite(&out_);
        return;
      }
      if (!std::exchange(again_, false)) {
        busy_ = false;
        return;
      }
    }
  });
}

void Connection::OnWriteDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    busy_ = false;
    out_.Clear();
  }
  if (ok)
    pump();
  else
    finish({grpc::StatusCode::CANCELLED, "the worker is gone"});
}

void Connection::OnCancel() { finish({grpc::StatusCode::CANCELLED, "the worker is gone"}); }

void Connection::OnDone() {
  std::shared_ptr<Connection> last;  // destroyed after the lock, because it may be the last pointer
  const std::lock_guard lock(mutex_);
  last.swap(self_);
}

void Connection::end_if_unwanted() {
  guarded([&] {
    Session* session = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (!session_ || over_) return;
      session = session_.get();
    }
    const auto refusal = session->unwanted();
    if (!refusal) return;
    // True if a message is on its way: the reason would wait behind it, perhaps for ever.
    bool waits = false;
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(over_, true)) return;
      waits = busy_;
    }
    if (waits) context_.TryCancel();  // before Finish, because the context may be gone after it
    finish_refused(*refusal);
  });
}

void Connection::hello_is_due() {
  {
    const std::lock_guard lock(mutex_);
    if (heard_ || std::exchange(over_, true)) return;
  }
  tell_desk(not_allowed("silence", "a session that did not say hello in time"));
  // The status is not PERMISSION_DENIED, because a worker behind a very slow link should try again.
  Finish({grpc::StatusCode::DEADLINE_EXCEEDED, "the hello took too long"});
}

void Connection::shut_down() { finish({grpc::StatusCode::UNAVAILABLE, "the server is shutting down"}); }

void Connection::refuse(const Refusal& refusal) {
  if (close()) finish_refused(refusal);
}

void Connection::finish_refused(const Refusal& refusal) {
  tell_desk(refusal);
  if (refusal.kind != Refusal::Kind::shutting_down) context_.AddTrailingMetadata(kRefusalKey, refusal.reason);
  Finish({status_code(refusal.kind), refusal.text});
}

void Connection::finish(const grpc::Status& status) {
  if (close()) Finish(status);
}

bool Connection::close() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(over_, true);
}

void Connection::tell_desk(const Refusal& refusal) noexcept {
  try {
    setup_.desk.refused(peer_, refusal);
  } catch (const std::exception&) {  // a log that cannot be written is no reason to keep the session
  }
}

void Connection::guarded(const auto& work) noexcept {
  try {
    work();
  } catch (const std::exception& error) {
    if (!close()) return;
    const std::string text = fmt::format("the server failed: {}", error.what());
    tell_desk(bad_message("internal_error", text));
    Finish({grpc::StatusCode::INTERNAL, text});
  }
}

}  // namespace signvote
