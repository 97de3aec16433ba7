#include "report/http_server.h"

#include <fmt/format.h>
#include <microhttpd.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <span>
#include <thread>

#include "base/clock.h"
#include "signvote/error.h"

namespace signvote {
namespace {

constexpr std::size_t kBlock = 16384;  // of an event, handed over at a time

std::string lookup(MHD_Connection* connection, MHD_ValueKind kind, const char* name) {
  const char* value = ::MHD_lookup_connection_value(connection, kind, name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string HttpRequest::header(const char* name) const { return lookup(connection_, MHD_HEADER_KIND, name); }
std::string HttpRequest::argument(const char* name) const {
  return lookup(connection_, MHD_GET_ARGUMENT_KIND, name);
}
std::string HttpRequest::cookie(const char* name) const { return lookup(connection_, MHD_COOKIE_KIND, name); }

/// One connection, which sleeps while there is nothing for it.
class EventStream::Reader {
 public:
  Reader(EventStream& stream, MHD_Connection* connection) : stream_(stream), connection_(connection) {
    const std::lock_guard lock(stream_.mutex_);
    stream_.readers_.push_back(this);
  }
  ~Reader() {
    const std::lock_guard lock(stream_.mutex_);
    std::erase(stream_.readers_, this);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// libmicrohttpd asks for the next bytes.
  static ssize_t read(void* self, std::uint64_t, char* out, std::size_t most) noexcept {
    try {
      return static_cast<Reader*>(self)->next({out, most});
    } catch (const std::exception&) {  // no memory, for one
      return MHD_CONTENT_READER_END_WITH_ERROR;
    }
  }
  static void end(void* self) noexcept { delete static_cast<Reader*>(self); }

  // The stream's mutex is held for both.
  bool has_all() const { return has_ == stream_.published_ && at_ == text_->size(); }
  void wake() {
    if (std::exchange(sleeps_, false)) ::MHD_resume_connection(connection_);
  }

 private:
  ssize_t next(std::span<char> out) {
    const std::lock_guard lock(stream_.mutex_);
    if (at_ == text_->size()) {
      if (has_ == stream_.published_) {
        if (stream_.closed_) return MHD_CONTENT_READER_END_OF_STREAM;
        sleeps_ = true;
        ::MHD_suspend_connection(connection_);
        return 0;
      }
      const bool has_missed = has_ == 0 || has_ + 1 != stream_.published_;
      if (has_missed && !stream_.whole_)
        stream_.whole_ = std::make_shared<const std::string>(stream_.make_whole_());
      text_ = has_missed ? stream_.whole_ : stream_.news_;
      has_ = stream_.published_;
      at_ = 0;
    }
    const std::size_t count = std::min(out.size(), text_->size() - at_);
    std::copy_n(text_->data() + at_, count, out.data());
    at_ += count;
    return static_cast<ssize_t>(count);
  }

  EventStream& stream_;
  MHD_Connection* connection_;
  std::uint64_t has_ = 0;  // the events that it was given, the one at hand included
  std::shared_ptr<const std::string> text_ = std::make_shared<const std::string>("retry: 1000\n\n");
  std::size_t at_ = 0;
  bool sleeps_ = false;
};

EventStream::~EventStream() { close(); }

void EventStream::publish(std::string news, std::function<std::string()> whole) {
  const std::lock_guard lock(mutex_);
  ++published_;
  news_ = std::make_shared<const std::string>(std::move(news));
  whole_.reset();
  make_whole_ = std::move(whole);
  for (Reader* reader : readers_) reader->wake();
}

std::size_t EventStream::readers() const {
  const std::lock_guard lock(mutex_);
  return readers_.size();
}

void EventStream::wait_until_read(double seconds) const {
  const Clock::time_point start = Clock::now();
  const auto all_read = [this] {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(readers_, &Reader::has_all);
  };
  while (!all_read() && seconds_since(start) < seconds)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void EventStream::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (Reader* reader : readers_) reader->wake();
}

/// libmicrohttpd's one thread calls everything below but the constructor.
class HttpServer::Impl {
 public:
  Impl(const HttpOptions& options, Handler handler)
      : handler_(std::move(handler)), most_(options.limits.connections) {
    std::string problem;
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (const int error =
            ::getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &found);
        error != 0) {
      problem = ::gai_strerror(error);
    } else {
      daemon_ = start(options, *found);
      if (daemon_ == nullptr) problem = std::strerror(errno);
      ::freeaddrinfo(found);
    }
    if (daemon_ == nullptr)
      throw EngineError(
          fmt::format("cannot listen on {}:{} for {}: {}; is the port in use? choose another {}",
                      options.host, options.port, options.what, problem, options.flag));
  }
  ~Impl() { ::MHD_stop_daemon(daemon_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  int port() const { return ::MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT)->port; }

 private:
  MHD_Daemon* start(const HttpOptions& options, const addrinfo& address) {
    const EndpointLimits& limits = options.limits;
    std::vector<MHD_OptionItem> more;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    if (address.ai_family == AF_INET6) flags |= MHD_USE_IPv6;
    if (!options.certificate.empty()) {
      flags |= MHD_USE_TLS;
      const auto pem = [](const std::string& text) { return const_cast<char*>(text.c_str()); };
      more.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, pem(options.certificate)});
      more.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, pem(options.key)});
    }
    more.push_back({MHD_OPTION_END, 0, nullptr});
    return ::MHD_start_daemon(flags, 0, nullptr, nullptr, &on_request, this,             //
                              MHD_OPTION_SOCK_ADDR, address.ai_addr,                     //
                              MHD_OPTION_CONNECTION_LIMIT, limits.connections + 1,       // the oldest goes
                              MHD_OPTION_CONNECTION_TIMEOUT, limits.idle_seconds,        //
                              MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits.request_bytes,  //
                              MHD_OPTION_NOTIFY_CONNECTION, &on_connection, static_cast<void*>(this),
                              MHD_OPTION_ARRAY, more.data(), MHD_OPTION_END);
  }

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
      const HttpAnswer answer = static_cast<Impl*>(self)->handler_({connection, method, path});
      MHD_Response* response = response_of(answer, connection);
      if (response == nullptr) return MHD_NO;
      ::MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.type.c_str());
      ::MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
      for (const auto& [name, value] : answer.headers)
        ::MHD_add_response_header(response, name.c_str(), value.c_str());
      const MHD_Result queued = ::MHD_queue_response(connection, answer.status, response);
      ::MHD_destroy_response(response);
      return queued;
    } catch (const std::exception&) {  // no memory, for one
      return MHD_NO;
    }
  }

  static MHD_Response* response_of(const HttpAnswer& answer, MHD_Connection* connection) {
    if (answer.events == nullptr)
      return ::MHD_create_response_from_buffer(answer.text.size(), const_cast<char*>(answer.text.data()),
                                               MHD_RESPMEM_MUST_COPY);
    auto reader = std::make_unique<EventStream::Reader>(*answer.events, connection);
    MHD_Response* response = ::MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, kBlock, &EventStream::Reader::read, reader.get(), &EventStream::Reader::end);
    if (response != nullptr) static_cast<void>(reader.release());
    return response;
  }

  const Handler handler_;
  const std::size_t most_;
  std::list<int> open_;  // sockets, the oldest first
  MHD_Daemon* daemon_ = nullptr;
};

HttpServer::HttpServer(const HttpOptions& options, Handler handler)
    : impl_(std::make_unique<Impl>(options, std::move(handler))) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return impl_->port(); }

}  // namespace signvote
