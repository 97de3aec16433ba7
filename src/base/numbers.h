// Numbers as people write them.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace signvote {

/// The number that the whole of `text` is; none if it is anything else, or does not fit.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

}  // namespace signvote
