// A server's numbers for machines, in Prometheus' text format, and an HTTP address that serves them.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "report/http_server.h"

namespace signvote {

/// Named numbers, with or without labels. Any thread may change them.
class Metrics {
 public:
  enum class Kind { counter, gauge };
  /// Every name must be declared before it is used. A counter is 0 before anything was counted, a gauge has
  /// no value before it is set.
  void declare(const std::string& name, Kind kind, const std::string& help);

  /// `labels` as in Prometheus' text, e.g. reason="late". REQUIRES: declared.
  void add(const std::string& name, double amount = 1, const std::string& labels = "");
  void set(const std::string& name, double value, const std::string& labels = "");

  std::string text() const;

 private:
  struct Metric {
    Kind kind = Kind::counter;
    std::string help;
    std::map<std::string, double> values;  // by labels
  };
  mutable std::mutex mutex_;
  std::map<std::string, Metric> metrics_;
};

/// Escapes a text so that it can stand between the quotes of a label.
std::string escape_label(const std::string& text);

/// Serves GET /metrics and /healthz on a loopback port for as long as it lives.
class MetricsEndpoint {
 public:
  /// Port 0 means any free port. `healthy` returns an empty text, or what is wrong. Throws EngineError if
  /// the port is in use.
  MetricsEndpoint(int port, const Metrics& metrics, std::function<std::string()> healthy,
                  const EndpointLimits& limits = {});
  int port() const { return server_.port(); }

 private:
  HttpServer server_;
};

}  // namespace signvote
