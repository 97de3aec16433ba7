#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/manual.h"
#include "run/config.h"

namespace signvote::cli {
namespace {

constexpr std::size_t kWidth = 100;

/// An item of a list, in lines of at most kWidth columns.
std::string item(const std::string& text) {
  std::string result = "-";
  std::size_t column = 1;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column + 1 + word.size() > kWidth) {
      result += "\n ";
      column = 1;
    }
    result += " " + word;
    column += 1 + word.size();
  }
  return result + "\n";
}

/// `<` would begin a tag, and `*` or `_` between words emphasis.
std::string prose(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<' || c == '*' || c == '_') result += '\\';
    result += c;
  }
  return result;
}

std::string item_of(const Argument& argument, const std::string& mark = "") {
  std::string names = fmt::format("{}", fmt::join(argument.names, "`, `"));
  if (!argument.value.empty()) names += " " + argument.value;
  return item(
      fmt::format("`{}`{}{}: {}", names, argument.required ? " (required)" : "", mark, prose(argument.help)));
}

std::string anchor(const std::string& heading) {
  std::string result = heading;
  std::ranges::replace(result, ' ', '-');
  return result;
}

/// A setting as its flag is in `signvote train`.
const Argument* shared(const Argument& flag, const Command& train) {
  const auto known = std::ranges::find(train.flags, flag.names, &Argument::names);
  return known != train.flags.end() && known->help == flag.help ? &*known : nullptr;
}

bool is_setting(const Argument& argument) {
  return std::ranges::any_of(
      train_options(), [&](const TrainOption& option) { return flag(option.name) == argument.names.back(); });
}

/// The command's flags, but of the settings that settings.md has only the names of those that are missing.
std::string flags_of(const Command& command, const Command& train) {
  std::string text;
  std::size_t settings = 0;
  for (const Argument& argument : command.flags) {
    if (is_setting(argument) && shared(argument, train))
      ++settings;
    else if (argument.names.back() != "--help")
      text += item_of(argument);
  }
  if (settings == 0) return text;
  std::vector<std::string> missing;
  for (const Argument& argument : train.flags)
    if (is_setting(argument) &&
        std::ranges::find(command.flags, argument.names, &Argument::names) == command.flags.end())
      missing.push_back("`" + argument.names.back() + "`");
  return text + item(fmt::format("all [settings](settings.md){}{}", missing.empty() ? "" : " but ",
                                 fmt::join(missing, ", ")));
}

std::string commands_page(const Command& program) {
  const auto train = std::ranges::find(program.subcommands, "signvote train", &Command::name);
  std::string page =
      "# All commands and their flags\n\nMade from the program by `make docs`; "
      "`signvote COMMAND --help` and `man signvote` say the same.\n\n";
  const std::vector<const Command*> all = with_all_below(program);
  for (const Command* command : all)
    page += item(fmt::format("[{}](#{}): {}", command->name, anchor(command->name), prose(command->help)));
  for (const Command* command : all) {
    page += fmt::format("\n## {}\n\n`{}`\n", command->name, command->synopsis());
    std::string arguments;
    for (const Argument& positional : command->positionals)
      arguments +=
          item(fmt::format("`{}`: {}", positional.value.empty() ? positional.names.front() : positional.value,
                           prose(positional.help)));
    arguments += flags_of(*command, *train);
    if (!arguments.empty()) page += "\n" + arguments;
    if (!command->footer.empty()) page += "\n```text\n" + command->footer + "\n```\n";
  }
  return page;
}

std::string settings_page(const Command& program) {
  std::string page =
      "# All settings of a run\n\nMade from the program by `make docs`. A setting is a flag of `signvote "
      "train`, `signvote server`\nand `signvote reproduce`, a key of the TOML file that `--config` takes "
      "(`--initial-rounds 50` is\n`initial_rounds = 50`), and a line of `config.toml` in the run's folder. "
      "`--resume` can change only\nwhat is marked with ↻, because the others fix the result.\n\n";
  const auto& server = *std::ranges::find(program.subcommands, "signvote server", &Command::name);
  const auto& train = *std::ranges::find(program.subcommands, "signvote train", &Command::name);
  for (const TrainOption& option : train_options())
    for (const Command* command : {&train, &server}) {  // --parameters is the server's alone
      const auto found = std::ranges::find(command->flags, std::vector{flag(option.name)}, &Argument::names);
      if (found == command->flags.end()) continue;
      page += item_of(*found, option.fixes_result || option.name == "out" ? "" : " ↻");
      break;
    }
  return page;
}

}  // namespace

std::map<std::string, std::string> reference_pages(const Command& program) {
  return {{"commands.md", commands_page(program)}, {"settings.md", settings_page(program)}};
}

}  // namespace signvote::cli
