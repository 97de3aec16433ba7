// A small HTTP server for what a program shows of itself: /metrics, and the dashboard's page. One thread of
// libmicrohttpd's serves all connections, whoever they are, within limits. It answers GET and HEAD and never
// reads a body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct MHD_Connection;

namespace signvote {

/// What one client can take, whoever it is.
struct EndpointLimits {
  unsigned connections = 64;          // if there are more, the oldest is closed
  std::size_t request_bytes = 16384;  // without the body, which is not read
  unsigned idle_seconds = 10;         // then a connection is closed; 0: never
};

/// A request's first line and headers; only valid while it is being answered.
class HttpRequest {
 public:
  HttpRequest(MHD_Connection* connection, std::string_view method, std::string_view where)
      : is_get(method == "GET" || method == "HEAD"), path(where), connection_(connection) {}

  const bool is_get;  // or HEAD, which gets the headers of the same answer
  const std::string_view path;
  // Each is empty if it is not there.
  std::string header(const char* name) const;
  std::string argument(const char* name) const;
  std::string cookie(const char* name) const;

 private:
  MHD_Connection* connection_;
};

/// Server-sent events to any number of connections. The newest event is kept and no other: who cannot keep
/// up, or comes anew, gets an event with everything instead of those that it missed. So nothing piles up.
class EventStream {
 public:
  EventStream() = default;
  ~EventStream();
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  /// Sends `news` to those who have had every event before, and what `whole` returns to the others.
  /// Both are whole events as text ("data: ...\n\n"). `whole` is called by the server's thread.
  void publish(std::string news, std::function<std::string()> whole);

  std::size_t readers() const;

  /// Waits until all connections have been handed the newest event, but at most `seconds`.
  void wait_until_read(double seconds) const;

  /// Ends all connections. Who comes later gets nothing.
  void close();

 private:
  friend class HttpServer;
  class Reader;
  mutable std::mutex mutex_;
  std::uint64_t published_ = 0;
  std::shared_ptr<const std::string> news_;
  std::shared_ptr<const std::string> whole_;  // made for the first who needs it
  std::function<std::string()> make_whole_;
  std::vector<Reader*> readers_;
  bool closed_ = false;
};

struct HttpAnswer {
  unsigned status = 200;
  std::string text;
  std::string type = "text/plain";
  std::vector<std::pair<std::string, std::string>> headers{};
  EventStream* events = nullptr;  // instead of a text
};

struct HttpOptions {
  std::string host = "127.0.0.1";  // a name or an address of this machine
  int port = 0;                    // 0: any free one
  std::string what;                // it is for, in an error: "/metrics"
  std::string flag;                // that chooses the port
  std::string certificate;         // PEM; empty: without TLS
  std::string key;                 // PEM
  EndpointLimits limits{};
};

class HttpServer {
 public:
  /// Called by the server's thread, which serves nobody else meanwhile.
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  /// Throws EngineError if it cannot listen. An event stream that an answer names must outlive this, and be
  /// closed before this goes.
  HttpServer(const HttpOptions& options, Handler handler);
  ~HttpServer();
  int port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace signvote
