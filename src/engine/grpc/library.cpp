#include "engine/grpc/library.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>

#include <chrono>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/grpc/address.h"

namespace signvote {
namespace {

/// These are global because gRPC's log function takes no argument of ours.
struct Watches {
  std::mutex mutex;
  std::vector<const HandshakeWatch::Told*> told;
};
Watches& watches() {
  static auto* all = new Watches;  // never destroyed, because gRPC's threads may log until the process ends
  return *all;
}

constexpr std::chrono::seconds kPatience{5};
constexpr std::string_view kFailedAccept = "Failed accept4: ";
std::mutex use_mutex;
int uses = 0;

thread_local ListenLog* listen_log = nullptr;

/// The text between two marks; empty if the first is not there.
std::string between(std::string_view text, std::string_view begin, std::string_view end) {
  const std::size_t from = text.find(begin);
  if (from == std::string_view::npos) return {};
  text.remove_prefix(from + begin.size());
  return std::string(text.substr(0, text.find(end)));
}

/// Parses "Handshaking failed: UNKNOWN:what happened {file:..., children:[...]}".
FailedHandshake failed_handshake(std::string_view line) {
  const auto has = [line](std::string_view words) { return line.find(words) != std::string_view::npos; };
  FailedHandshake failed;
  failed.peer = readable_peer(between(line, "target_address:\"", "\""));
  failed.reason = "tls_handshake";
  if (has("timed out")) {
    failed.reason = "silence";
    failed.text = "a connection that did not finish the TLS handshake in time";
  } else if (has("certificate verify failed")) {
    failed.text = "a certificate that has expired, or that the authority for workers has not signed";
  } else if (has("did not return a certificate")) {
    failed.text = "a connection without a worker's certificate";
  } else if (has("http request")) {
    failed.text = "a connection that speaks HTTP instead of TLS";
  } else if (has("wrong version number")) {
    failed.text = "a connection that does not speak TLS";
  } else if (const std::string why = between(line, "Ssl handshake failed: ", " {"); !why.empty()) {
    failed.text = "the TLS handshake failed: " + why;
  } else {
    failed.text = "a connection that was closed during the TLS handshake";
  }
  return failed;
}

void tell(const FailedHandshake& failed) {
  Watches& all = watches();
  const std::lock_guard lock(all.mutex);
  for (const HandshakeWatch::Told* told : all.told) (*told)(failed);
}

void on_log(gpr_log_func_args* line) {
  const std::string_view file = line->file;
  const std::string_view message = line->message;
  // Only this file's lines are used, because what the TLS code logs could also be about a client.
  if (file.ends_with("chttp2_server.cc")) {
    if (listen_log != nullptr) listen_log->add(std::string(message));
    if (message.starts_with("Handshaking failed: ") &&
        message.find("Server shutdown") == std::string_view::npos)
      tell(failed_handshake(message));
  } else if (file.ends_with("chttp2_transport.cc") &&
             message.find("Did not receive HTTP/2 settings before handshake timeout") !=
                 std::string_view::npos) {
    tell({readable_peer(std::string(message.substr(0, message.find(": ")))), "silence",
          "a connection that said nothing"});
  } else if (file.ends_with("tcp_server_posix.cc") && message.starts_with(kFailedAccept)) {
    tell({"", kAcceptFailed,
          "a connection could not be accepted: " + std::string(message.substr(kFailedAccept.size()))});
  }
}

}  // namespace

LibraryUse::LibraryUse() {
  const std::lock_guard lock(use_mutex);
  if (uses++ > 0) return;
  ::gpr_set_log_function(on_log);
  ::gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);  // failed handshakes are logged at this level
  google::protobuf::SetLogHandler(nullptr);
}

LibraryUse::~LibraryUse() {
  const std::lock_guard lock(use_mutex);
  if (--uses > 0) return;
  // Work that a closed channel had begun releases gRPC a little later.
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (::grpc_is_initialized() != 0) {
    if (std::chrono::steady_clock::now() > deadline) return;  // somebody else uses gRPC
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // gRPC may be cleaning up in another thread now. These calls make sure that it is done when we return.
  ::grpc_init();
  ::grpc_shutdown_blocking();
}

HandshakeWatch::HandshakeWatch(Told told) : told_(std::move(told)) {
  Watches& all = watches();
  const std::lock_guard lock(all.mutex);
  all.told.push_back(&told_);
}

HandshakeWatch::~HandshakeWatch() {
  Watches& all = watches();
  const std::lock_guard lock(all.mutex);
  std::erase(all.told, &told_);
}

ListenLog::ListenLog() { listen_log = this; }
ListenLog::~ListenLog() { listen_log = nullptr; }

bool ListenLog::port_in_use() const { return text_.find("Address already in use") != std::string::npos; }

std::string ListenLog::problem() const {
  if (std::string why = between(text_, "os_error:\"", "\""); !why.empty()) return why;
  if (std::string why = between(text_, "UNKNOWN:", " {"); !why.empty()) return why;
  return text_.empty() ? "gRPC does not say why" : text_;
}

}  // namespace signvote
