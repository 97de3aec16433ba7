// One worker's connection on the server's side, and the list of all of them.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/grpc/vote_server.h"

namespace signvote {

class Connection;

/// Why nobody can be let in by this certificate, whoever is on the list.
std::optional<Refusal> bad_identity(const std::optional<Identity>& who);

/// All connections of a server. Each is in the list from its beginning until its session is gone.
class ConnectionList {
 public:
  void add(const std::shared_ptr<Connection>& connection);
  void joined();
  void remove(const Connection* connection, bool had_joined);

  std::vector<std::shared_ptr<Connection>> all() const;
  /// How many connections have said hello and were let in.
  std::size_t sessions() const;
  bool wait_for_no_sessions(double seconds) const;
  void wait_until_empty() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<const Connection*, std::weak_ptr<Connection>> connections_;
  std::size_t sessions_ = 0;
};

/// gRPC calls the On... functions from its threads, possibly several at once; it keeps the connection
/// alive until OnDone. No lock is held while the desk or the session is called.
class Connection final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  /// What all connections of a server share.
  struct Setup {
    Desk& desk;
    ConnectionList& connections;
    bool tls;
    std::size_t largest_message;  // a serialised FromWorker
  };

  /// The caller need not keep the pointer, because a connection lives until gRPC is done with it.
  static std::shared_ptr<Connection> begin(const Setup& setup, grpc::CallbackServerContext& context);
  ~Connection() override;

  /// Asks the session for messages and sends them, until it has nothing or one is on its way.
  void pump();
  /// Ends the connection if its session must end, even if the worker does not read.
  void end_if_unwanted();
  /// To be called when the time to say hello is over.
  void hello_is_due();
  void shut_down();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  Connection(const Setup& setup, grpc::CallbackServerContext& context);

  /// From the certificate, which the handshake has admitted; or, without TLS, what the worker says.
  std::optional<Identity> identify(const v1::Hello& hello) const;
  /// Handles the message that was read. A refusal ends the connection.
  std::optional<Refusal> take();
  std::optional<Refusal> join(const v1::Hello& hello);
  void read_next();
  void refuse(const Refusal& refusal);
  /// To be called by who has closed it.
  void finish_refused(const Refusal& refusal);
  void finish(const grpc::Status& status);
  /// Returns false if it was over already. Only the caller that gets true may call Finish.
  bool close();
  void tell_desk(const Refusal& refusal) noexcept;
  /// Runs `work`; an exception ends the connection.
  void guarded(const auto& work) noexcept;

  const Setup setup_;
  grpc::CallbackServerContext& context_;
  const std::string peer_;
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;

  std::mutex mutex_;                  // guards all below
  std::shared_ptr<Connection> self_;  // until OnDone
  std::unique_ptr<Session> session_;  // set once
  bool heard_ = false;                // a first message has come
  bool over_ = false;                 // gRPC has been told to finish: nothing may be started any more
  bool busy_ = false;                 // the session is being asked, or a message is on its way
  bool again_ = false;                // pump() was called while the session was being asked
};

}  // namespace signvote
