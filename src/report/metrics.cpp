#include "report/metrics.h"

#include <fmt/format.h>

#include <cassert>

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
    if (metric.values.empty() && metric.kind == Kind::counter) text += fmt::format("{} 0\n", name);
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

}  // namespace signvote
