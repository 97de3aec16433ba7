// Text from outside, such as the names of folders and workers, made harmless in each format. pugixml escapes
// what is put into a page.
#pragma once

#include <string>
#include <string_view>

namespace signvote {

/// Valid UTF-8 with U+FFFD for what is not, for control characters other than newlines, and for those that
/// turn the direction of writing round, so that a command does not look like another one.
std::string readable(std::string_view text);

/// For Markdown, also inside tables: no markup, no HTML, one line.
std::string markdown_text(std::string_view text);

/// A field of CSV: quoted if need be. A spreadsheet does not take it for a formula.
std::string csv_field(std::string_view text);

/// A word of a shell's command.
std::string shell_word(std::string_view text);

}  // namespace signvote
