#include "cli/manual.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <sstream>

namespace signvote::cli {
namespace {

Argument describe(const CLI::Option& option) {
  Argument argument;
  for (const std::string& name : option.get_snames()) argument.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) argument.names.push_back("--" + name);
  if (argument.names.empty()) argument.names.push_back(option.get_name(true));
  if (option.get_items_expected_max() > 0) argument.value = option.get_type_name();
  argument.help = option.get_description();
  argument.required = option.get_required();
  return argument;
}

Command describe(const CLI::App& app, const std::string& before) {
  Command command{before + app.get_name(), app.get_description(), "", {}, {}, {}};
  // CLI11 gives a subcommand the footer of its parent, if it has none of its own.
  if (app.get_parent() == nullptr || app.get_footer() != app.get_parent()->get_footer())
    command.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? command.positionals : command.flags).push_back(describe(*option));
  }
  for (const CLI::App* subcommand : app.get_subcommands({}))
    if (!subcommand->get_group().empty())
      command.subcommands.push_back(describe(*subcommand, command.name + " "));
  return command;
}

}  // namespace

bool Argument::takes_folder() const { return value.find("DIR") != std::string::npos && !takes_file(); }

bool Argument::takes_file() const {
  return value.find("FILE") != std::string::npos || value.find(".pt") != std::string::npos;
}

std::vector<std::string> Argument::choices() const {
  const std::size_t from = help.rfind(": ");
  if (from == std::string::npos) return {};
  std::vector<std::string> words;
  std::istringstream list(help.substr(from + 2, help.find(" [", from) - from - 2));
  for (std::string word; std::getline(list, word, ',');) {
    word.erase(0, word.starts_with(' ') ? 1 : 0);
    const auto plain = [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '-'; };
    if (word.empty() || !std::ranges::all_of(word, plain)) return {};
    words.push_back(word);
  }
  return words.size() > 1 ? words : std::vector<std::string>{};
}

std::string Command::synopsis() const {
  std::string text = name;
  for (const Argument& argument : positionals)
    text += " " + (argument.value.empty() ? argument.names.front() : argument.value);
  for (const Argument& argument : flags)
    if (argument.required) text += " " + argument.names.back() + " " + argument.value;
  if (flags.size() > 1) text += " [FLAGS]";  // more than --help
  if (!subcommands.empty()) text += " COMMAND";
  return text;
}

Command describe(const CLI::App& app) { return describe(app, ""); }

std::vector<const Command*> with_all_below(const Command& command) {
  std::vector<const Command*> all = {&command};
  for (const Command& subcommand : command.subcommands)
    for (const Command* below : with_all_below(subcommand)) all.push_back(below);
  return all;
}

}  // namespace signvote::cli
