// The parts that a comparison's page is made of. pugixml escapes all texts.
#pragma once

#include <pugixml.hpp>
#include <string>

#include "report/comparison.h"

namespace signvote::html {

using Node = pugi::xml_node;

/// An element with a text, which may be empty: HTML has no <td/>.
Node add(Node parent, const char* tag, const std::string& text, const char* classes = nullptr);

/// An element for others.
Node open(Node parent, const char* tag, const char* classes = nullptr);

void set(Node node, const char* attribute, const std::string& value);

/// A table in a frame that can be moved sideways where the screen is narrow, by the keyboard too.
Node add_table(Node parent, const std::string& name);
/// A cell of its first row. `help` is shown when the pointer is on it.
Node add_heading(Node row, const std::string& text, const std::string& help, bool number);
/// The first cell of another row.
Node add_row_name(Node row, const std::string& text);

/// "Mode 4, " before a text, if there is more than one panel.
std::string with_panel(const ComparedPanel& panel, const std::string& text);

/// The section of curves: a legend, and charts of accuracy and loss with their numbers.
void add_curves(Node body, const Comparison& comparison);
/// A style sheet by which the boxes of the legend hide lines.
std::string style_of_legend(const Comparison& comparison);

}  // namespace signvote::html
