#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/commands.h"
#include "cli/manual.h"

namespace signvote::cli {
namespace {

/// In single quotes, as both shells take it.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// What bash completes a value with: "folder", "file", words, or with nothing, "any".
std::string bash_values(const Argument& argument) {
  if (argument.takes_file()) return "file";
  if (argument.takes_folder()) return "folder";
  const std::vector<std::string> words = argument.choices();
  return words.empty() ? "any" : fmt::format("{}", fmt::join(words, " "));
}

constexpr const char* kBash = R"(
  local command=signvote list='' kind='' word
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ -n $word && -n ${flags["$command $word"]-} ]]; then command+=" $word"; fi
  done
  # bash cuts --flag=value into three words
  if [[ $current == = ]]; then
    current=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if [[ $before == -* ]]; then kind=${values["$command $before"]-}; fi
  if [[ -z $kind && $current == -* ]]; then
    list=${flags[$command]}
  elif [[ -z $kind ]]; then
    list=${subcommands[$command]-} kind=${values[$command]-${values[${command% *}]-}}  # also: journal verify DIR
    if [[ -z $list$kind ]]; then list=${flags[$command]}; fi
  fi
  COMPREPLY=()
  case $kind in
    folder | file)
      local action=-f
      if [[ $kind == folder ]]; then action=-d; fi
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen "$action" -- "$current" | sort -u)
      ;;
    any | '') ;;
    *) list+=" $kind" ;;
  esac
  mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$list" -- "$current")
}
complete -F _signvote signvote
)";

/// Text inside of [...] or between colons of a specification for zsh's _arguments.
std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_value(const Argument& argument) {
  std::string action = " ";
  if (argument.takes_file()) action = "_files";
  if (argument.takes_folder()) action = "_files -/";
  if (!argument.choices().empty()) action = fmt::format("({})", fmt::join(argument.choices(), " "));
  return fmt::format("{}:{}", zsh_text(argument.value.empty() ? argument.names.front() : argument.value),
                     action);
}

std::string zsh_function(const Command& command) {
  std::string name = command.name;
  std::ranges::replace(name, ' ', '_');
  return "_" + name;
}

std::string zsh_command(const Command& command) {
  std::string text =
      fmt::format("{}() {{\n  local curcontext=$curcontext state\n  _arguments -C", zsh_function(command));
  for (const Argument& flag : command.flags)
    for (const std::string& flag_name : flag.names)
      text +=
          fmt::format(" \\\n    {}", quoted(fmt::format("{}[{}]{}", flag_name, zsh_text(flag.help),
                                                        flag.value.empty() ? "" : ":" + zsh_value(flag))));
  std::size_t place = 0;
  for (const Argument& positional : command.positionals)
    text += fmt::format(" \\\n    {}", quoted(fmt::format("{}:{}", ++place, zsh_value(positional))));
  if (command.subcommands.empty()) return text + "\n}\n\n";
  text += fmt::format(" \\\n    '{}:command:->command' '*::arguments:->arguments'\n", ++place);
  text += "  case $state in\n    command)\n      local -a commands=(";
  for (const Command& subcommand : command.subcommands)
    text += fmt::format("\n        {}", quoted(subcommand.last_name() + ":" + zsh_text(subcommand.help)));
  return text + fmt::format(
                    ")\n      _describe command commands ;;\n"
                    "    arguments)\n      shift {1} words; (( CURRENT -= {1} ))\n"
                    "      if (( $+functions[{0}_$words[1]] )); then {0}_$words[1]; fi ;;\n  esac\n}}\n\n",
                    zsh_function(command), place - 1);
}

}  // namespace

std::string bash_completion(const Command& program) {
  std::string subcommands;
  std::string flags;
  std::string values;
  const auto add = [](std::string& array, const std::string& key, const std::string& value) {
    if (!value.empty()) array += fmt::format("    [{}]={}\n", quoted(key), quoted(value));
  };
  for (const Command* command : with_all_below(program)) {
    std::vector<std::string> names;
    for (const Command& subcommand : command->subcommands) names.push_back(subcommand.last_name());
    add(subcommands, command->name, fmt::format("{}", fmt::join(names, " ")));
    names.clear();
    for (const Argument& flag : command->flags) {
      names.insert(names.end(), flag.names.begin(), flag.names.end());
      if (!flag.value.empty()) add(values, command->name + " " + flag.names.back(), bash_values(flag));
    }
    add(flags, command->name, fmt::format("{}", fmt::join(names, " ")));
    if (!command->positionals.empty()) add(values, command->name, bash_values(command->positionals.front()));
  }
  return fmt::format(
      "# Completion of signvote for bash, made by: signvote completion bash\n_signvote() {{\n"
      "  local -A subcommands=(\n{}  )\n  local -A flags=(\n{}  )\n  local -A values=(\n{}  ){}",
      subcommands, flags, values, kBash);
}

std::string zsh_completion(const Command& program) {
  std::string text =
      "#compdef signvote\n# Completion of signvote for zsh, made by: signvote completion zsh\n\n";
  for (const Command* command : with_all_below(program)) text += zsh_command(*command);
  return text + "_signvote \"$@\"\n";
}

void add_completion(CLI::App& app, Action& action) {
  CLI::App* completion = app.add_subcommand("completion", "Print what completes signvote's words in a shell");
  completion->require_subcommand(1);
  completion->footer(
      "Examples:\n  source <(signvote completion bash)                         (in ~/.bashrc)\n"
      "  signvote completion zsh > /usr/local/share/zsh/site-functions/_signvote");
  const auto add = [&](const std::string& shell, std::string (*make)(const Command&)) {
    completion->add_subcommand(shell, "For " + shell)->callback([&app, &action, make] {
      action = [&app, make] {
        fmt::print("{}", make(describe(app)));
        return 0;
      };
    });
  };
  add("bash", bash_completion);
  add("zsh", zsh_completion);
}

}  // namespace signvote::cli
