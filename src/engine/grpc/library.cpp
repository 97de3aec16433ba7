#include "engine/grpc/library.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/numbers.h"
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
constexpr std::string_view kRefused = "Custom verification check failed with error: PERMISSION_DENIED: ";
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
  if (const std::size_t at = line.find(kRefused); at != std::string_view::npos) {
    const std::string_view said = line.substr(at + kRefused.size(), line.rfind(" {") - at - kRefused.size());
    failed.reason = said.substr(0, said.find(": "));
    failed.text = said.substr(failed.reason.size() + 2);
  } else if (has("timed out")) {
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
  } else if (const std::string why = between(line, "handshake failed: ", " {"); !why.empty()) {
    failed.text = "the TLS handshake failed: " + why;
  } else {
    failed.text = "a connection that was closed during the TLS handshake";
  }
  return failed;
}

/// The other end of a socket whose own end is `port`, if this process has shut it down; else none.
std::optional<Address> peer_if_shut(int socket, int port) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  const auto text = [&](Address& shown) {
    char host[NI_MAXHOST];
    char number[NI_MAXSERV];
    if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, number,
                      sizeof number, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
      return false;
    shown.host = host;
    if (shown.host.starts_with("::ffff:")) shown.host.erase(0, 7);  // IPv4 on a socket for both
    shown.port = parse_number<int>(number).value_or(0);
    return true;
  };
  Address ours, theirs;
  tcp_info info{};
  socklen_t info_size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &info_size) != 0) return std::nullopt;
  if (info.tcpi_state != TCP_FIN_WAIT1 && info.tcpi_state != TCP_FIN_WAIT2 &&
      info.tcpi_state != TCP_CLOSING && info.tcpi_state != TCP_LAST_ACK)
    return std::nullopt;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 || !text(ours) ||
      ours.port != port)
    return std::nullopt;
  size = sizeof address;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 || !text(theirs))
    return std::nullopt;
  return theirs;
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

grpc::Status refused_in_handshake(const std::string& reason, const std::string& text) {
  return {grpc::StatusCode::PERMISSION_DENIED, reason + ": " + text};
}

std::string peer_being_closed(int port) {
  std::optional<Address> found;
  bool several = false;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    const auto descriptor = parse_number<int>(entry->path().filename().string());
    const auto peer = descriptor ? peer_if_shut(*descriptor, port) : std::nullopt;
    if (!peer) continue;
    if (found && found->host != peer->host) return "";
    several = found.has_value();
    found = peer;
  }
  if (!found) return "";
  return several ? found->host : found->text();
}

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
