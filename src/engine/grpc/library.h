// gRPC tells of failed handshakes and ports only in its log, one for the whole process. This reads that log
// and prints nothing. The texts are gRPC 1.51's; vote_session_test fails if they change.
#pragma once

#include <grpcpp/support/status.h>

#include <functional>
#include <string>

namespace signvote {

/// Hold one for as long as anything of gRPC is used; neither gRPC nor protobuf prints anything meanwhile.
/// The last one waits for gRPC's threads, which would otherwise run on while OpenSSL cleans up at the exit.
class LibraryUse {
 public:
  LibraryUse();
  ~LibraryUse();
  LibraryUse(const LibraryUse&) = delete;
  LibraryUse& operator=(const LibraryUse&) = delete;
};

/// A connection that ended before it became a session.
struct FailedHandshake {
  std::string peer;    // its address if known, else empty
  std::string reason;  // one word: "tls_handshake", "silence", kAcceptFailed, or of refused_in_handshake
  std::string text;    // one line
};
/// After this, gRPC 1.51 never accepts another connection on that port.
inline constexpr const char* kAcceptFailed = "accept_failed";

/// For a verifier of certificates: makes the handshake fail, and `reason` and `text` those of its
/// FailedHandshake.
grpc::Status refused_in_handshake(const std::string& reason, const std::string& text);

/// The address of the connection to our `port` that this process has just shut down, and not yet closed. If
/// there are several, only the host, if it is the same; else empty. It looks at all open files. For this gRPC
/// has no function: it does not tell whose certificate it verifies.
std::string peer_being_closed(int port);

/// While this lives, `told` is called once for every failed handshake with a server of this process. gRPC's
/// threads call it while they hold gRPC's locks, so it must neither call gRPC nor throw.
class HandshakeWatch {
 public:
  using Told = std::function<void(const FailedHandshake&)>;
  explicit HandshakeWatch(Told told);
  /// When this returns, `told` is not running and will not be called again.
  ~HandshakeWatch();
  HandshakeWatch(const HandshakeWatch&) = delete;
  HandshakeWatch& operator=(const HandshakeWatch&) = delete;

 private:
  Told told_;
};

/// While this lives, it collects what gRPC's servers log in this thread. A thread can have only one.
class ListenLog {
 public:
  ListenLog();
  ~ListenLog();
  ListenLog(const ListenLog&) = delete;
  ListenLog& operator=(const ListenLog&) = delete;

  void add(const std::string& line) { text_ += line + '\n'; }
  bool port_in_use() const;
  /// Why a port could not be opened, in the operating system's words if gRPC logs them.
  std::string problem() const;

 private:
  std::string text_;
};

}  // namespace signvote
