#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "cli/manual.h"
#include "signvote/version.h"

namespace signvote::cli {
namespace {

/// Text as roff takes it: hyphens that can be copied, and no line that looks like a request.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
    if (c == '\n') result += "\\&";
  }
  return "\\&" + result;
}

/// "signvote-certs-worker"
std::string page_name(const Command& command) {
  std::string name = command.name;
  std::ranges::replace(name, ' ', '-');
  return name;
}

/// Its lines, with each that is no line of a list, as "Examples:", as a heading.
std::string footer(const std::string& text) {
  std::string page;
  bool lines = false;
  const auto begin = [&](std::string heading) {
    for (char& c : heading) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    page += fmt::format("{}.SH {}\n.nf\n", lines ? ".fi\n" : "", roff(heading));
    lines = true;
  };
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) {
    if (line.ends_with(':') && !line.starts_with(' '))
      begin(line.substr(0, line.size() - 1));
    else {
      if (!lines) begin("Notes");
      page += line.empty() ? ".sp\n" : roff(line) + "\n";
    }
  }
  return lines ? page + ".fi\n" : page;
}

std::string arguments(const std::string& heading, const std::vector<Argument>& all) {
  if (all.empty()) return "";
  std::string page = fmt::format(".SH {}\n", heading);
  for (const Argument& argument : all) {
    std::vector<std::string> names;
    for (const std::string& name : argument.names) names.push_back("\\fB" + roff(name) + "\\fR");
    page += fmt::format(".TP\n{}{}\n{}{}\n", fmt::join(names, ", "),
                        argument.value.empty() ? "" : " \\fI" + roff(argument.value) + "\\fR",
                        roff(argument.help), argument.required ? " (required)" : "");
  }
  return page;
}

constexpr const char* kAlways = R"(.SH EXIT STATUS
.TP
.B 0
It did what it was asked to do.
.TP
.B 1
It failed; a line on standard error says at what, and what to do.
.TP
.B 2
The command line or a settings file makes no sense; a line says what to write instead.
.TP
.B 130
It was asked to stop, saved what it had, and said how to go on.
)";

std::string man_page(const Command& command, const Command& program) {
  std::string page =
      fmt::format(".TH {} 1 \"\" \"signvote {}\" \"signvote\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n",
                  roff(page_name(command)), SIGNVOTE_VERSION, roff(page_name(command)), roff(command.help),
                  roff(command.synopsis()));
  if (!command.subcommands.empty()) {
    page += ".SH COMMANDS\n";
    for (const Command& subcommand : command.subcommands)
      page += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", roff(page_name(subcommand)), roff(subcommand.help));
  }
  page += arguments("ARGUMENTS", command.positionals) + arguments("FLAGS", command.flags) +
          footer(command.footer) + kAlways;
  if (&command != &program) page += fmt::format(".SH SEE ALSO\n.BR {} (1)\n", roff(page_name(program)));
  return page;
}

}  // namespace

std::map<std::string, std::string> man_pages(const Command& program) {
  std::map<std::string, std::string> pages;
  for (const Command* command : with_all_below(program))
    pages[page_name(*command) + ".1"] = man_page(*command, program);
  return pages;
}

}  // namespace signvote::cli
