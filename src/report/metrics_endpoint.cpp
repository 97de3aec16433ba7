#include <fmt/format.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <string_view>
#include <utility>

#include "report/metrics.h"
#include "signvote/error.h"

namespace signvote {

/// libmicrohttpd's one thread serves all connections and calls everything below but the constructor.
class MetricsEndpoint::Impl {
 public:
  Impl(int port, const Metrics& metrics, std::function<std::string()> healthy, const EndpointLimits& limits)
      : metrics_(metrics), healthy_(std::move(healthy)), most_(limits.connections) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    daemon_ = ::MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, nullptr, nullptr, &on_request, this,  //
                                 MHD_OPTION_SOCK_ADDR, reinterpret_cast<const sockaddr*>(&address),      //
                                 MHD_OPTION_CONNECTION_LIMIT, limits.connections + 1,       // the oldest goes
                                 MHD_OPTION_CONNECTION_TIMEOUT, limits.idle_seconds,        //
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits.request_bytes,  //
                                 MHD_OPTION_NOTIFY_CONNECTION, &on_connection, static_cast<void*>(this),
                                 MHD_OPTION_END);
    if (daemon_ == nullptr)
      throw EngineError(
          fmt::format("cannot listen on 127.0.0.1:{} for /metrics: {}; is the port in use? choose another "
                      "--metrics-port",
                      port, std::strerror(errno)));
  }
  ~Impl() { ::MHD_stop_daemon(daemon_); }

  int port() const { return ::MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT)->port; }

 private:
  struct Answer {
    unsigned status = MHD_HTTP_OK;
    std::string text;
    const char* type = "text/plain";
  };

  /// Keeps the list of open connections, and ends the oldest of too many: it has had the most time.
  static void on_connection(void* self, MHD_Connection* connection, void**,
                            MHD_ConnectionNotificationCode what) noexcept {
    auto& open = static_cast<Impl*>(self)->open_;
    const auto* info = ::MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
      open.remove(info->connect_fd);
      return;
    }
    open.push_back(info->connect_fd);
    if (open.size() > static_cast<Impl*>(self)->most_) ::shutdown(open.front(), SHUT_RDWR);
  }

  /// Called as soon as a request's headers are there. Answering then, we never read a body.
  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* path, const char* method,
                               const char*, const char*, std::size_t*, void**) noexcept {
    try {
      Answer answer = static_cast<const Impl*>(self)->answer(method, path);
      MHD_Response* response =
          ::MHD_create_response_from_buffer(answer.text.size(), answer.text.data(), MHD_RESPMEM_MUST_COPY);
      ::MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.type);
      ::MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
      const MHD_Result queued = ::MHD_queue_response(connection, answer.status, response);
      ::MHD_destroy_response(response);
      return queued;
    } catch (const std::exception&) {  // no memory, for one
      return MHD_NO;
    }
  }

  Answer answer(std::string_view method, std::string_view path) const {
    if (method == MHD_HTTP_METHOD_GET || method == MHD_HTTP_METHOD_HEAD) {
      if (path == "/metrics") return {MHD_HTTP_OK, metrics_.text(), "text/plain; version=0.0.4"};
      if (path == "/healthz") {
        const std::string problem = healthy_();
        if (problem.empty()) return {MHD_HTTP_OK, "ok\n"};
        return {MHD_HTTP_SERVICE_UNAVAILABLE, problem + "\n"};
      }
    }
    return {MHD_HTTP_NOT_FOUND, "there are GET /metrics and GET /healthz\n"};
  }

  const Metrics& metrics_;
  const std::function<std::string()> healthy_;
  const std::size_t most_;
  std::list<int> open_;  // sockets, the oldest first
  MHD_Daemon* daemon_ = nullptr;
};

MetricsEndpoint::MetricsEndpoint(int port, const Metrics& metrics, std::function<std::string()> healthy,
                                 const EndpointLimits& limits)
    : impl_(std::make_unique<Impl>(port, metrics, std::move(healthy), limits)) {}
MetricsEndpoint::~MetricsEndpoint() = default;
int MetricsEndpoint::port() const { return impl_->port(); }

}  // namespace signvote
