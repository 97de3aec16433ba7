// A server's numbers for machines: Prometheus' text, and an address to fetch it from.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace signvote {

/// Named numbers, with or without labels. Any thread may change them.
class Metrics {
 public:
  enum class Kind { counter, gauge };
  /// Every name is declared before it is used; it is shown even while nobody has counted anything.
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

/// What may stand between the quotes of a label.
std::string escape_label(const std::string& text);

/// GET /metrics and /healthz on a loopback port, for as long as it lives.
class MetricsEndpoint {
 public:
  /// port 0: any. `healthy` gives an empty text, or what is wrong. Throws EngineError if the port is in use.
  MetricsEndpoint(int port, const Metrics& metrics, std::function<std::string()> healthy);
  ~MetricsEndpoint();
  int port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace signvote
