#include "report/html.h"

#include <fmt/format.h>

#include "report/markup.h"

namespace signvote::html {

Node add(Node parent, const char* tag, const std::string& text, const char* classes) {
  Node node = parent.append_child(tag);
  if (classes != nullptr) node.append_attribute("class") = classes;
  node.append_child(pugi::node_pcdata).set_value(readable(text).c_str());
  return node;
}

Node open(Node parent, const char* tag, const char* classes) {
  Node node = parent.append_child(tag);
  if (classes != nullptr) node.append_attribute("class") = classes;
  return node;
}

void set(Node node, const char* attribute, const std::string& value) {
  node.append_attribute(attribute) = readable(value).c_str();
}

Node add_table(Node parent, const std::string& name) {
  Node frame = open(parent, "div", "wide");
  set(frame, "role", "region");
  set(frame, "aria-label", name);
  set(frame, "tabindex", "0");
  return open(frame, "table");
}

Node add_heading(Node row, const std::string& text, const std::string& help, bool number) {
  std::string unbroken = text;
  if (text.ends_with(" %")) unbroken.replace(text.size() - 2, 1, "\u00a0");
  Node cell = add(row, "th", unbroken, number ? "number" : nullptr);
  set(cell, "scope", "col");
  if (!help.empty()) set(cell, "title", help);
  return cell;
}

Node add_row_name(Node row, const std::string& text) {
  Node cell = add(row, "th", text);
  set(cell, "scope", "row");
  return cell;
}

std::string with_panel(const ComparedPanel& panel, const std::string& text) {
  return panel.title.empty() ? text : panel.title + ", " + text;
}

}  // namespace signvote::html
