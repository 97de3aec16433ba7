// One worker's stream on the server's side, and the book of all of them.
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

class Session;

/// Which sessions there are. A session is in it from its first moment until its visit is gone.
class SessionBook {
 public:
  void add(const std::shared_ptr<Session>& session);
  void joined();
  void remove(const Session* session, bool had_joined);

  std::vector<std::shared_ptr<Session>> all() const;
  /// Those that have said hello and were let in.
  std::size_t visits() const;
  bool wait_for_no_visits(double seconds) const;
  void wait_until_empty() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<const Session*, std::weak_ptr<Session>> sessions_;
  std::size_t visits_ = 0;
};

/// gRPC calls the On... functions from its threads, possibly several at once; it keeps the session alive
/// until OnDone. No lock is held while the desk or the visit is called.
class Session final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  struct House {
    Desk& desk;
    SessionBook& book;
    bool tls;
    std::size_t largest_message;  // a serialised FromWorker
  };

  /// The returned pointer may be let go: a session lives until gRPC is done with it.
  static std::shared_ptr<Session> begin(const House& house, grpc::CallbackServerContext& context);
  ~Session() override;

  /// Asks the visit for messages and sends them, until it has nothing or one is on its way.
  void pump();
  /// Cuts a session that must end, also one whose worker does not read.
  void end_if_unwanted();
  /// The time to say hello is over.
  void hello_is_due();
  void shut_down();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  Session(const House& house, grpc::CallbackServerContext& context);

  std::optional<Refusal> identify(const grpc::CallbackServerContext& context);
  /// Looks at what was read. A refusal ends the session.
  std::optional<Refusal> take();
  std::optional<Refusal> join(const v1::Hello& hello);
  void read_next();
  void refuse(const Refusal& refusal);
  void finish(const grpc::Status& status);
  /// False: it was over already. Whoever gets true, and only that, calls Finish.
  bool close();
  void tell_desk(const Refusal& refusal) noexcept;
  /// Runs `work`, of which exceptions end the session.
  void guarded(const auto& work) noexcept;

  const House house_;
  grpc::CallbackServerContext& context_;
  const std::string peer_;
  std::string name_;
  std::optional<Refusal> stranger_;  // why the connection identifies nobody
  std::shared_ptr<Session> self_;    // until OnDone
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;

  std::mutex mutex_;              // for all below
  std::unique_ptr<Visit> visit_;  // set once
  bool heard_ = false;            // a first message has come
  bool over_ = false;             // gRPC has been told to finish: nothing may be started any more
  bool busy_ = false;             // the visit is being asked, or a message is on its way
  bool again_ = false;            // pump() was called while the visit was being asked
};

}  // namespace signvote
