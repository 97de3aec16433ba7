// The server's end of gRPC: sessions with workers, by TLS on both sides. It knows who calls, reads what
// they send and writes what there is for them; what that is, a Desk decides.
//
// gRPC's callback interface: no thread waits for a worker, so hundreds of connections cost no more
// than their memory. A session has at most one message on its way out; the next is asked for when
// that has left. A slow worker holds up nobody and nothing piles up for it.
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
  std::string reason;  // a word for the metrics, e.g. "wrong_round"
  std::string text;    // one line for people
};

/// One worker's session, from hello to end. Calls of one session never overlap, except that next() and
/// unwanted() may be called during others. Its destructor is the end of the session. An exception ends it
/// too, as a failure of the server after which the worker tries again.
class Session {
 public:
  virtual ~Session() = default;

  /// A ballot has come, not yet looked at; its message may be taken. A refusal ends the session.
  virtual std::optional<Refusal> ballot(v1::Ballot& ballot) = 0;

  struct Nothing {};  // yet: asked again after VoteServer::wake
  struct Goodbye {};  // the session is over and all is well
  using Next = std::variant<Nothing, grpc::ByteBuffer, Goodbye, Refusal>;
  /// The next message for the worker, a serialised ToWorker. Does not wait.
  virtual Next next() = 0;
  /// Why the session must end, though its worker may not even read what it was sent last: asked after
  /// VoteServer::wake, also during the other calls.
  virtual std::optional<Refusal> unwanted() = 0;
};

/// Called from gRPC's threads and one of the server's, by many sessions at once, under no lock.
class Desk {
 public:
  virtual ~Desk() = default;
  /// `name`: from the certificate, or as said without TLS. `peer` is the address, for logs.
  virtual std::variant<std::unique_ptr<Session>, Refusal> join(const std::string& name, const std::string& peer,
                                                             const v1::Hello& hello) = 0;
  /// A session was refused, or a connection never got as far as one (bad certificate, silence, another
  /// protocol). Everything a stranger does wrong comes here, once: for the log and the metrics. `peer` is
  /// empty where gRPC does not tell it. With several servers in a process, each hears of the bad
  /// handshakes of all: gRPC does not tell whose they are.
  virtual void refused(const std::string& peer, const Refusal& refusal) = 0;
};

struct VoteServerOptions {
  std::string listen;               // HOST:PORT; port 0: any
  std::optional<KeyPair> keys;      // none: without TLS, on a loopback address only
  std::string client_authority;     // PEM: who signs the workers' certificates
  std::size_t largest_message = 0;  // of a ballot, as in wire.h
  std::uint32_t workers = 0;        // so many may be sending one at the same time
  int hello_seconds = 10;           // a stranger's time for the handshake, and then to say hello
};

class VoteServer {
 public:
  /// Listens at once. Throws as listen_address does, and EngineError if the port is in use. `desk` must
  /// outlive this.
  VoteServer(const VoteServerOptions& options, Desk& desk);
  /// Ends all sessions: who is not gone after a second is cut off. All sessions are gone when it returns.
  ~VoteServer();

  int port() const;
  std::size_t sessions() const;

  /// There may be something new for the workers: every session that had nothing is asked again, by a thread
  /// of the server. So this may be called from anywhere, also by a session, and under any lock.
  void wake();

  /// Returns when there is no session, or after so many seconds; true if there is none.
  bool wait_for_goodbyes(double seconds);

  /// True once the process had no file descriptor left for a new connection: gRPC then accepts no more,
  /// for good. The sessions there are go on; the only help is another VoteServer in its place.
  bool stopped_accepting() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace signvote
