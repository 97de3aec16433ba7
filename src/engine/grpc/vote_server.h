// The server's end of gRPC: sessions with workers, with TLS on both sides. It knows who calls, reads what
// they send and writes what there is for them; a Desk decides what that is.
//
// It uses gRPC's callback interface: no thread waits for a worker, so hundreds of connections cost no more
// than their memory. A session sends one message at a time and asks for the next when that has left. So a
// slow worker delays nobody, and nothing piles up for it.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "certs/certificates.h"
#include "engine/grpc/address.h"

namespace signvote {

namespace v1 {
class Hello;
class Ballot;
}  // namespace v1

/// Why a session ends. The worker gets the text, the log gets a line, the metrics count `reason`.
struct Refusal {
  enum class Kind { not_allowed, bad_message, replaced, shutting_down };
  Kind kind = Kind::bad_message;
  std::string reason;  // one word for the metrics, e.g. "wrong_round"
  std::string text;    // one line for people
};

/// One worker's session, from hello to end. Calls of one session never overlap, except that next() and
/// unwanted() may be called during others. The destructor is called when the session has ended. An
/// exception ends it too; the worker is told that the server failed and tries again.
class Session {
 public:
  virtual ~Session() = default;

  /// A ballot has come and has not been checked. Its message may be moved from. A refusal ends the session.
  virtual std::optional<Refusal> ballot(v1::Ballot& ballot) = 0;

  struct Nothing {};  // for now: asked again after VoteServer::wake
  struct Goodbye {};  // the session is over and all is well
  using Next = std::variant<Nothing, grpc::ByteBuffer, Goodbye, Refusal>;
  /// The next message for the worker, a serialised ToWorker. Does not wait.
  virtual Next next() = 0;
  /// Why the session must end, if it must. Asked after wake, also during other calls, so that a worker that
  /// does not read can be cut off.
  virtual std::optional<Refusal> unwanted() = 0;
};

/// Called from gRPC's threads and one of the server's, by many sessions at once.
class Desk {
 public:
  virtual ~Desk() = default;
  /// Asked in the TLS handshake, once for each connection. With somebody who is refused here, HTTP/2 is never
  /// spoken. gRPC waits for the answer and holds locks meanwhile: it must be quick and must not call gRPC.
  virtual std::optional<Refusal> admit(const Identity& who) = 0;
  /// `who` is from the certificate or, without TLS, what the worker says, and then without a key. `peer` is
  /// the address, for logs. No lock is held.
  virtual std::variant<std::unique_ptr<Session>, Refusal> join(const Identity& who, const std::string& peer,
                                                               const v1::Hello& hello) = 0;
  /// A session was refused, or a connection never became one (bad certificate, silence, another protocol).
  /// Called once for everything that a stranger does wrong, for the log and the metrics. `peer` is empty if
  /// it cannot be told. gRPC does not tell either which server a bad handshake was with, so if a
  /// process has several servers, each is told of all.
  virtual void refused(const std::string& peer, const Refusal& refusal) = 0;
};

struct VoteServerOptions {
  std::string listen;               // HOST:PORT; port 0: any
  std::optional<KeyPair> keys;      // none: without TLS, on a loopback address only
  std::string client_authority;     // PEM: who signs the workers' certificates
  std::size_t largest_message = 0;  // the most bytes of a ballot, as in wire.h
  std::uint32_t workers = 0;        // how many may send a ballot at the same time
  int hello_seconds = 10;           // the most for the handshake, and then again for the hello
};

class VoteServer {
 public:
  /// Listens at once. Throws what listen_address throws, and EngineError if the port is in use. `desk` must
  /// outlive this.
  VoteServer(const VoteServerOptions& options, Desk& desk);
  /// Ends all sessions; those that are left after a second are cut off. When it returns, none is left.
  ~VoteServer();

  int port() const;
  std::size_t sessions() const;

  /// Makes a thread of the server ask every session again that had nothing to send. May be called from
  /// anywhere, also by a session and while any lock is held.
  void wake();

  /// Waits until there is no session, at most so many seconds. Returns true if there is none.
  bool wait_for_goodbyes(double seconds);

  /// True once the process had no file descriptor left for a new connection, because gRPC then never
  /// accepts another. The existing sessions go on. Only a new VoteServer in its place helps.
  bool stopped_accepting() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace signvote
