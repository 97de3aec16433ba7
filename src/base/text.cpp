#include "base/text.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <new>

namespace signvote {

std::string one_line(std::string_view text, std::size_t limit) {
  std::string line;
  while (!text.empty() && line.size() <= limit) {
    const std::size_t end = text.find_first_of("\r\n");
    const std::string_view part = text.substr(0, end);
    if (!part.empty()) line += (line.empty() ? "" : "; ") + std::string(part);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  if (line.size() > limit) line = line.substr(0, limit) + "...";
  return line;
}

std::string as_file_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ') continue;
    name += std::isalnum(byte) != 0 || c == '.' || c == '_' ? c : '-';
  }
  return name;
}

std::string describe_current_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "out of memory; take fewer workers, a smaller --micro-batch or fewer --threads";
  } catch (const std::filesystem::filesystem_error& error) {
    return without_controls(
        fmt::format("cannot look at '{}': {}", error.path1().string(), error.code().message()));
  } catch (const std::exception& error) {
    const std::string what = error.what();
    return without_controls(what.substr(0, what.find('\n')));  // libtorch's errors go on with a stack trace
  }
}

}  // namespace signvote
