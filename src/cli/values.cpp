#include "cli/values.h"

#include <fmt/format.h>

#include <charconv>

#include "base/numbers.h"
#include "signvote/error.h"

namespace signvote::cli {

double parse_seconds(const std::string& flag, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string unit(stop, end);
  const double factor = unit.empty() || unit == "s" ? 1
                        : unit == "ms"              ? 1e-3
                        : unit == "m"               ? 60
                        : unit == "h"               ? 3600
                                                    : 0;
  if (error != std::errc{} || factor == 0 || !(value > 0) || value * factor > 1e9)
    throw ConfigError(fmt::format("{} is '{}'; write a time like 30s, 500ms or 5m", flag, text));
  return value * factor;
}

std::uint64_t parse_whole(const std::string& flag, const std::string& text) {
  const auto value = parse_number<std::uint64_t>(text);
  if (!value) throw ConfigError(fmt::format("{} is '{}'; write a whole number, 0 or more", flag, text));
  return *value;
}

}  // namespace signvote::cli
