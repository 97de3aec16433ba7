// gRPC as a guest in the process, and what it says of connections that never become a session. It tells no
// caller why a handshake failed or a port could not be opened, only its log, of which there is one a process:
// so that is read here, and nothing of it is printed. The wording is that of gRPC 1.51; vote_session_test
// knows if it changes.
#pragma once

#include <functional>
#include <string>

namespace signvote {

/// gRPC for as long as somebody uses it: hold one before and after everything else of gRPC. From the first
/// on neither gRPC nor protobuf prints anything. When the last goes, it waits until gRPC's threads have
/// ended: they would go on connecting while the process exits, with an OpenSSL that has cleaned up.
class LibraryUse {
 public:
  LibraryUse();
  ~LibraryUse();
  LibraryUse(const LibraryUse&) = delete;
  LibraryUse& operator=(const LibraryUse&) = delete;
};

/// A connection that was closed before it could say anything.
struct FailedHandshake {
  std::string peer;    // its address if known, else empty
  std::string reason;  // a word: "tls_handshake", "silence" or kAcceptFailed
  std::string text;    // one line
};
/// gRPC 1.51 then never accepts another: the server that listens there is deaf.
inline constexpr const char* kAcceptFailed = "accept_failed";

/// While it lives, `told` hears of every failed handshake with a server of this process, once each. It is
/// called from gRPC's threads, under gRPC's locks: it must neither call gRPC nor throw.
class HandshakeWatch {
 public:
  using Told = std::function<void(const FailedHandshake&)>;
  explicit HandshakeWatch(Told told);
  /// When this returns, `told` does not run and never will.
  ~HandshakeWatch();
  HandshakeWatch(const HandshakeWatch&) = delete;
  HandshakeWatch& operator=(const HandshakeWatch&) = delete;

 private:
  Told told_;
};

/// Collects what gRPC's servers have to say in this thread while it lives. One a thread.
class ListenLog {
 public:
  ListenLog();
  ~ListenLog();
  ListenLog(const ListenLog&) = delete;
  ListenLog& operator=(const ListenLog&) = delete;

  void add(const std::string& line) { text_ += line + '\n'; }
  bool port_in_use() const;
  /// Why a port could not be opened, as the operating system says it where it does.
  std::string problem() const;

 private:
  std::string text_;
};

}  // namespace signvote
