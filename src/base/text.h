// Text from outside, made fit for a log or an error of one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace signvote {

/// At most `limit` characters, with '?' for what is not printable ASCII.
inline std::string printable(std::string_view text, std::size_t limit) {
  std::string result(text.substr(0, limit));
  for (char& c : result)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  return text.size() > limit ? result + "..." : result;
}

/// With '?' for every control character, because a terminal would obey it. Other languages' letters stay.
inline std::string without_controls(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

/// "1 round", "2 rounds".
inline std::string counted(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// `text` as a part of a file name: "flip:6" is "flip-6", "mode 4" is "mode4".
std::string as_file_name(const std::string& text);

/// Describes the current exception in one line without control characters. REQUIRES: a std::exception is
/// being handled.
std::string describe_current_exception();

/// The lines of a text joined by "; ", cut after `limit` bytes.
std::string one_line(std::string_view text, std::size_t limit = 300);

}  // namespace signvote
