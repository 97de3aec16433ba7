// The command line as data, taken from CLI11's tree, and all that is made of it: manual pages, the reference
// in docs/, and completion in shells. So none of them can differ from what the program takes.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace signvote::cli {

struct Argument {
  std::vector<std::string> names;  // "-h" and "--help"; of a positional one, the only name: "folder"
  std::string value;               // what kind, as "DIR"; empty: a switch, or a word
  std::string help;
  bool required = false;

  /// What kind of file completes the value.
  bool takes_folder() const;
  bool takes_file() const;
  /// The words that it takes, if its help ends with a list of them: "...: agree, it, mv [agree]".
  std::vector<std::string> choices() const;
};

struct Command {
  std::string name;  // with those of the commands that it belongs to: "signvote certs worker"
  std::string help;
  std::string footer;
  std::vector<Argument> positionals;
  std::vector<Argument> flags;
  std::vector<Command> subcommands;

  std::string last_name() const { return name.substr(name.rfind(' ') + 1); }
  /// "signvote certs worker DIR [FLAGS]"
  std::string synopsis() const;
};

/// All that is not hidden.
Command describe(const CLI::App& app);

/// The command and all below it, from the outermost.
std::vector<const Command*> with_all_below(const Command& command);

/// Pages for man(1) by file name, one for each command: "signvote-certs-worker.1".
std::map<std::string, std::string> man_pages(const Command& program);

/// Pages in Markdown by file name: "commands.md" and "settings.md".
std::map<std::string, std::string> reference_pages(const Command& program);

std::string bash_completion(const Command& program);
std::string zsh_completion(const Command& program);

}  // namespace signvote::cli
