// The worker's end of gRPC: one session with the server, used by one thread. Another one, its own, reads
// what comes meanwhile: so a worker that was busy for long can see how far the others are.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "certs/certificates.h"

namespace signvote {

namespace v1 {
class FromWorker;
class ToWorker;
}  // namespace v1

struct VoteClientOptions {
  std::string connect;          // HOST:PORT
  std::optional<KeyPair> keys;  // none: without TLS, to a loopback address only
  std::string authority;        // PEM: who signs the server's certificate
  std::size_t read_ahead = std::size_t{256}
                           << 20;  // bytes read before they are asked for; more waits outside
};

/// How a session ended.
struct SessionEnd {
  enum class Kind {
    done,     // the server said goodbye
    lost,     // the network, or the server, went away: try again
    refused,  // the server does not want this worker, or TLS failed: trying again changes nothing
  };
  Kind kind = Kind::lost;
  std::string text;  // one line
};

class VoteClient {
 public:
  /// Does not connect yet. Throws ConfigError for an address that makes no sense, or no TLS outside
  /// loopback.
  explicit VoteClient(const VoteClientOptions& options);
  ~VoteClient();

  /// Begins a new session, ending the one there may be. Waits at most `seconds` for the connection.
  /// False: see end().
  bool begin(double seconds);

  /// False: it cannot be sent, and the session is ending. What the server said before can still be received.
  bool send(const v1::FromWorker& message);
  /// Waits, as long as the connection lives (keep-alive finds out if it does not). False: the session is
  /// over, see end().
  bool receive(v1::ToWorker& message);
  /// A message has come: receive will not wait.
  bool has_message() const;

  /// Why it is over; ends it if it is not.
  SessionEnd end();

  /// From any thread, but not from a signal handler: makes a waiting begin, send or receive return false,
  /// and all later ones. For good, so that it cannot come just too early.
  void cancel();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace signvote
