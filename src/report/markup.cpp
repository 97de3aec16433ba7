#include "report/markup.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace signvote {

std::string readable(std::string_view text) {
  using nlohmann::json;
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  // Three bytes each: the marks, embeddings, overrides and isolates of directions, separators,
  // non-characters.
  static constexpr std::array<std::string_view, 15> kUnwanted = {
      "\xE2\x80\x8E", "\xE2\x80\x8F", "\xE2\x80\xAA", "\xE2\x80\xAB", "\xE2\x80\xAC",
      "\xE2\x80\xAD", "\xE2\x80\xAE", "\xE2\x81\xA6", "\xE2\x81\xA7", "\xE2\x81\xA8",
      "\xE2\x81\xA9", "\xE2\x80\xA8", "\xE2\x80\xA9", "\xEF\xBF\xBE", "\xEF\xBF\xBF"};
  const std::string valid =
      json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
  std::string result;
  for (std::size_t i = 0; i < valid.size(); ++i) {
    const auto byte = static_cast<unsigned char>(valid[i]);
    if (std::ranges::find(kUnwanted, std::string_view(valid).substr(i, 3)) != kUnwanted.end()) {
      result += kReplacement;
      i += 2;
    } else if ((byte < 0x20 && byte != '\n') || byte == 0x7f) {
      result += kReplacement;
    } else {
      result += valid[i];
    }
  }
  return result;
}

std::string markdown_text(std::string_view text) {
  constexpr std::string_view kMarkup = "\\`*_[]|#~";
  std::string result;
  for (const char c : readable(text)) {
    if (c == '<')
      result += "&lt;";
    else if (c == '&')
      result += "&amp;";
    else if (c == '\n')
      result += ' ';
    else
      result += (kMarkup.find(c) != std::string_view::npos ? "\\" : "") + std::string(1, c);
  }
  return result;
}

std::string csv_field(std::string_view text) {
  std::string field = readable(text);
  if (!field.empty() && std::string_view("=+-@").find(field[0]) != std::string_view::npos)
    field.insert(0, 1, '\'');
  if (field.find_first_of(",\"\n") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char c : field) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,@=+";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + '\'';
}

}  // namespace signvote
