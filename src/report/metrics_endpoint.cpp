// One thread serves all connections and waits for none of them. An HTTP library with a thread for each
// connection cannot keep its promises here: a few idle or slow clients would take all its threads.
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "report/metrics.h"
#include "signvote/error.h"

namespace signvote {
namespace {

constexpr std::size_t kMostUnread = 1 << 16;  // bytes of a body that are thrown away before a connection ends
constexpr int kPauseMilliseconds = 100;       // until the next attempt if there is no file for a connection

std::string response(std::string_view status, std::string_view type, std::string_view content, bool head) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                     status, type, content.size(), head ? "" : content);
}

/// A client, from its request to the end of the answer. Nothing here blocks.
class Client {
 public:
  using Answer = std::function<std::string(std::string_view request_line)>;

  Client(Descriptor socket, Clock::time_point end) : socket_(std::move(socket)), end_(end) {}

  int fd() const { return socket_.fd; }
  Clock::time_point end() const { return end_; }
  short waits_for() const { return sent_ < answer_.size() ? POLLOUT : POLLIN; }

  /// Does what can be done now. Returns false if the connection is over.
  bool go_on(std::size_t most_bytes, const Answer& answer) {
    if (answer_.empty() && !read_request(most_bytes, answer)) return false;
    if (answer_.empty()) return true;
    while (sent_ < answer_.size()) {
      const ssize_t count = ::send(fd(), answer_.data() + sent_, answer_.size() - sent_, MSG_NOSIGNAL);
      if (count < 0) return would_block();
      sent_ += static_cast<std::size_t>(count);
      if (sent_ == answer_.size()) ::shutdown(fd(), SHUT_WR);
    }
    // If the socket were closed while there is something to read, the client would lose the answer.
    std::array<char, 4096> unread;
    while (thrown_away_ < kMostUnread) {
      const ssize_t count = ::recv(fd(), unread.data(), unread.size(), 0);
      if (count < 0) return would_block();
      if (count == 0) return false;
      thrown_away_ += static_cast<std::size_t>(count);
    }
    return false;
  }

 private:
  static bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

  bool read_request(std::size_t most_bytes, const Answer& answer) {
    std::array<char, 4096> buffer;
    std::size_t end = std::string::npos;
    while ((end = request_.find("\r\n\r\n")) == std::string::npos && request_.size() <= most_bytes) {
      const ssize_t count = ::recv(fd(), buffer.data(), buffer.size(), 0);
      if (count < 0) return would_block();
      if (count == 0) return false;
      request_.append(buffer.data(), static_cast<std::size_t>(count));
    }
    if (std::min(end, request_.size()) > most_bytes) {
      answer_ =
          response("431 Request Header Fields Too Large", "text/plain", "the request is too long\n", false);
      return true;
    }
    answer_ = answer(std::string_view(request_).substr(0, request_.find("\r\n")));
    return true;
  }

  Descriptor socket_;
  Clock::time_point end_;  // it is closed then, whatever it is doing
  std::string request_;
  std::string answer_;
  std::size_t sent_ = 0;
  std::size_t thrown_away_ = 0;
};

Descriptor listen_on(int port) {
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (listener.fd < 0 || ::setsockopt(listener.fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(listener.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.fd, SOMAXCONN) != 0)
    throw EngineError(
        fmt::format("cannot listen on 127.0.0.1:{} for /metrics: {}; is the port in use? choose another "
                    "--metrics-port",
                    port, std::strerror(errno)));
  return listener;
}

int port_of(const Descriptor& listener) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(listener.fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

}  // namespace

class MetricsEndpoint::Impl {
 public:
  Impl(int port, const Metrics& metrics, std::function<std::string()> healthy, const EndpointLimits& limits)
      : metrics_(metrics),
        healthy_(std::move(healthy)),
        limits_(limits),
        stop_(::eventfd(0, EFD_CLOEXEC)),
        listener_(listen_on(port)),
        port_(port_of(listener_)) {
    if (stop_.fd < 0) throw EngineError(fmt::format("cannot serve /metrics: {}", std::strerror(errno)));
    thread_ = std::thread([this] { serve(); });
  }
  ~Impl() {
    ::eventfd_write(stop_.fd, 1);
    thread_.join();
  }
  int port() const { return port_; }

 private:
  void serve() {
    bool pause = false;
    while (true) {
      std::vector<pollfd> waiting = {{stop_.fd, POLLIN, 0}, {pause ? -1 : listener_.fd, POLLIN, 0}};
      for (const Client& client : clients_) waiting.push_back({client.fd(), client.waits_for(), 0});
      ::poll(waiting.data(), waiting.size(), pause ? kPauseMilliseconds : milliseconds_left());
      if (waiting[0].revents != 0) return;
      const Clock::time_point now = Clock::now();
      std::size_t at = 2;
      std::erase_if(clients_, [&](Client& client) {
        return (waiting[at++].revents != 0 && !go_on(client)) || client.end() <= now;
      });
      pause = !accept_one();
    }
  }

  /// Returns false if there is a connection to accept, but no file for it.
  bool accept_one() {
    Descriptor socket(::accept4(listener_.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.fd < 0) return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
    if (clients_.size() >= limits_.connections) clients_.pop_front();  // the oldest has had the most time
    clients_.emplace_back(std::move(socket),
                          Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(limits_.seconds)));
    if (!go_on(clients_.back())) clients_.pop_back();
    return true;
  }

  bool go_on(Client& client) const {
    try {
      return client.go_on(limits_.request_bytes, [this](std::string_view line) { return answer(line); });
    } catch (const std::exception&) {  // no memory, for one
      return false;
    }
  }

  std::string answer(std::string_view request_line) const {
    const std::size_t space = request_line.find(' ');
    const std::string_view method = request_line.substr(0, space);
    std::string_view path = request_line.substr(std::min(space, request_line.size() - 1) + 1);
    path = path.substr(0, path.find_first_of(" ?"));
    const bool head = method == "HEAD";
    if (method == "GET" || head) {
      if (path == "/metrics") return response("200 OK", "text/plain; version=0.0.4", metrics_.text(), head);
      if (path == "/healthz") {
        const std::string problem = healthy_();
        return problem.empty() ? response("200 OK", "text/plain", "ok\n", head)
                               : response("503 Service Unavailable", "text/plain", problem + "\n", head);
      }
    }
    return response("404 Not Found", "text/plain", "there are GET /metrics and GET /healthz\n", head);
  }

  /// Until the oldest connection's time is up; -1 if there is none.
  int milliseconds_left() const {
    if (clients_.empty()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(clients_.front().end() - Clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
  }

  const Metrics& metrics_;
  const std::function<std::string()> healthy_;
  const EndpointLimits limits_;
  Descriptor stop_;
  Descriptor listener_;
  int port_;
  std::deque<Client> clients_;  // the oldest first
  std::thread thread_;
};

MetricsEndpoint::MetricsEndpoint(int port, const Metrics& metrics, std::function<std::string()> healthy,
                                 const EndpointLimits& limits)
    : impl_(std::make_unique<Impl>(port, metrics, std::move(healthy), limits)) {}
MetricsEndpoint::~MetricsEndpoint() = default;
int MetricsEndpoint::port() const { return impl_->port(); }

}  // namespace signvote
