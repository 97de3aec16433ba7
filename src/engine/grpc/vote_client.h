// The worker's end of gRPC: one session with the server, used by one thread. A thread of its own reads what
// comes meanwhile, so that a worker that was busy for long can see whether its round is over.
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
                           << 20;  // bytes read before they are asked for; more stays with gRPC
};

/// How a session ended.
struct SessionEnd {
  enum class Kind {
    done,      // the server said goodbye
    lost,      // the network, or the server, went away: try again
    hung_up,   // the same, but the server closed the connection in the handshake: it may not want this worker
    refused,   // the server itself said that it does not want this worker
    unproven,  // TLS failed, or something that is not known to be the server refused
  };
  Kind kind = Kind::lost;
  std::string text;  // one line
};

class VoteClient {
 public:
  /// Does not connect yet. Throws ConfigError if the address makes no sense, or is not loopback and there
  /// is no TLS.
  explicit VoteClient(const VoteClientOptions& options);
  ~VoteClient();

  /// Uses these certificates from now on, for new connections. Ends the session, if any. REQUIRES: it was
  /// made with TLS.
  void renew(const KeyPair& keys, const std::string& authority);

  /// Begins a new session and ends the old one, if any. Waits at most `seconds` for the connection. If it
  /// returns false, end() says why.
  bool begin(double seconds);

  /// Returns false if the message cannot be sent, because the session is ending. What the server said
  /// before can still be received.
  bool send(const v1::FromWorker& message);
  /// Waits for as long as the connection lives (keep-alive notices if it does not). Returns false if the
  /// session is over; end() says why.
  bool receive(v1::ToWorker& message);
  /// True if a message has come, so that receive will not wait.
  bool has_message() const;

  /// Ends the session if it is not over, and says how it ended.
  SessionEnd end();

  /// Makes a begin, send or receive that waits return false, and all later ones too: a cancel that comes
  /// just before one of them must not be lost. May be called from any thread, but not from a signal
  /// handler.
  void cancel();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace signvote
