#include "base/text.h"

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

}  // namespace signvote
