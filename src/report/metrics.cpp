#include "report/metrics.h"

#include <fmt/format.h>
#include <httplib.h>

#include <atomic>
#include <cassert>
#include <thread>
#include <utility>

#include "signvote/error.h"

namespace signvote {

void Metrics::declare(const std::string& name, Kind kind, const std::string& help) {
  const std::lock_guard lock(mutex_);
  metrics_[name] = {kind, help, {}};
}

void Metrics::add(const std::string& name, double amount, const std::string& labels) {
  const std::lock_guard lock(mutex_);
  assert(metrics_.contains(name));
  metrics_[name].values[labels] += amount;
}

void Metrics::set(const std::string& name, double value, const std::string& labels) {
  const std::lock_guard lock(mutex_);
  assert(metrics_.contains(name));
  metrics_[name].values[labels] = value;
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [name, metric] : metrics_) {
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, metric.help, name,
                        metric.kind == Kind::counter ? "counter" : "gauge");
    if (metric.values.empty()) text += fmt::format("{} 0\n", name);
    for (const auto& [labels, value] : metric.values)
      text += labels.empty() ? fmt::format("{} {}\n", name, value)
                             : fmt::format("{}{{{}}} {}\n", name, labels, value);
  }
  return text;
}

std::string escape_label(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"' || c == '\n') escaped += '\\';
    escaped += c == '\n' ? 'n' : c;
  }
  return escaped;
}

class MetricsEndpoint::Impl {
 public:
  Impl(int port, const Metrics& metrics, std::function<std::string()> healthy) {
    server_.Get("/metrics", [&metrics](const httplib::Request&, httplib::Response& response) {
      response.set_content(metrics.text(), "text/plain; version=0.0.4");
    });
    server_.Get("/healthz",
                [healthy = std::move(healthy)](const httplib::Request&, httplib::Response& response) {
                  const std::string problem = healthy();
                  response.status = problem.empty() ? 200 : 503;
                  response.set_content(problem.empty() ? "ok\n" : problem + "\n", "text/plain");
                });
    // By default the library sets SO_REUSEPORT, which would share a port that another program uses.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    if (port == 0)
      port_ = server_.bind_to_any_port("127.0.0.1");
    else
      port_ = server_.bind_to_port("127.0.0.1", port) ? port : -1;
    if (port_ < 0)
      throw EngineError(fmt::format(
          "cannot listen on 127.0.0.1:{} for /metrics: is the port in use? choose another --metrics-port",
          port));
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      ended_ = true;
    });
  }
  ~Impl() {
    while (!server_.is_running() && !ended_)
      std::this_thread::yield();  // otherwise stop could come before the start
    server_.stop();
    thread_.join();
  }
  int port() const { return port_; }

 private:
  httplib::Server server_;
  int port_ = 0;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

MetricsEndpoint::MetricsEndpoint(int port, const Metrics& metrics, std::function<std::string()> healthy)
    : impl_(std::make_unique<Impl>(port, metrics, std::move(healthy))) {}
MetricsEndpoint::~MetricsEndpoint() = default;
int MetricsEndpoint::port() const { return impl_->port(); }

}  // namespace signvote
