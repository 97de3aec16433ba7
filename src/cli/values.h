// Values of flags. All throw ConfigError that names the flag.
#pragma once

#include <cstdint>
#include <string>

namespace signvote::cli {

/// "30s", "1.5m", "200ms" or "30" as seconds.
double parse_seconds(const std::string& flag, const std::string& text);

/// CLI11's own would take -1 for 2^64 - 1.
std::uint64_t parse_whole(const std::string& flag, const std::string& text);

}  // namespace signvote::cli
