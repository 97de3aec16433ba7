#include "cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "run/config.h"
#include "run/foreign_words.h"
#include "signvote/error.h"
#include "signvote/version.h"

namespace signvote::cli {
namespace {

/// The subcommands that were chosen, from the outermost, after the program itself.
std::vector<const CLI::App*> chosen(const CLI::App& app) {
  std::vector<const CLI::App*> commands = {&app};
  while (!commands.back()->get_subcommands().empty())
    commands.push_back(commands.back()->get_subcommands().front());
  return commands;
}

std::string see_help(const CLI::App& app) {
  std::string name;
  for (const CLI::App* command : chosen(app)) name += command->get_name() + " ";
  return "see " + name + "--help";
}

/// What to say of a word that nobody has a use for.
std::string unexpected(const std::string& extra, const CLI::App& app) {
  const std::string word = extra.substr(0, extra.find('='));
  const CLI::App* command = chosen(app).back();
  std::vector<std::string> known;
  for (const CLI::Option* option : command->get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  const bool is_flag = word.starts_with("-");
  const std::string what = fmt::format("unknown {} '{}'; ", is_flag ? "flag" : "argument", word);
  if (const ForeignWord* foreign = is_flag ? foreign_word(word) : nullptr) {
    if (foreign->options.empty()) return what + foreign->remark;
    for (const std::string& option : foreign->options)
      if (std::ranges::find(known, flag(option)) != known.end())
        return fmt::format("{}it is called {} here{}{}", what, flag(option),
                           foreign->remark.empty() ? "" : ", ", foreign->remark);
    return what + (command->get_name() == "worker" ? "a worker gets the run's settings from its server"
                                                   : see_help(app));
  }
  const auto is_setting = [&word](const TrainOption& option) { return flag(option.name) == word; };
  if (command->get_name() == "worker" && std::ranges::any_of(train_options(), is_setting))
    return what + "a worker gets the run's settings from its server";
  for (const CLI::App* subcommand : command->get_subcommands({})) known.push_back(subcommand->get_name());
  const auto near = nearest(word, known);
  return what + (near ? fmt::format("did you mean {}?", *near) : see_help(app));
}

/// CLI11's words for a value or a subcommand that is missing or given twice, in ours.
std::string explain(const CLI::ParseError& error, const CLI::App& app) {
  const std::string what = error.what();
  const std::string name = what.substr(0, what.find(':'));
  if (what.ends_with("missing")) return fmt::format("{} needs a value; {}", name, see_help(app));
  if (what.find("At Most 1") != std::string::npos)
    return fmt::format("{} is given more than once; leave all but one out", name);
  if (what == "A subcommand is required") {
    std::vector<std::string> names;
    for (const CLI::App* subcommand : chosen(app).back()->get_subcommands({}))
      names.push_back(subcommand->get_name());
    return fmt::format("a subcommand is missing: {}; {}", fmt::join(names, ", "), see_help(app));
  }
  return fmt::format("{}; {}", what, see_help(app));
}

}  // namespace

void add_commands(CLI::App& app, const Computing& computing, Action& action) {
  app.name("signvote");
  app.description(
      "Train one model on unequal machines over slow links, with about one bit per parameter per round.");
  app.set_version_flag("--version", "signvote " SIGNVOTE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "First steps:\n  signvote data fetch mnist\n  signvote reproduce figure1 --dataset mnist --out "
      "runs/figure1\n"
      "  signvote train --batch-mode 4 --out runs/first");
  add_train(app, computing, action);
  add_reproduce(app, computing, action);
  add_data(app, action);
  add_eval(app, computing, action);
  add_server(app, computing, action);
  add_worker(app, computing, action);
  add_journal(app, computing, action);
  add_inspect(app, computing, action);
  add_report(app, action);
  add_certs(app, action);
  add_completion(app, action);
}

int run_command_line(int argc, char** argv, const Computing& computing) {
  CLI::App app;
  Action action;
  add_commands(app, computing, action);
  int code = 0;
  try {
    app.parse(argc, argv);
    code = action();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      const std::vector<std::string> extras = app.remaining(true);
      throw ConfigError(extras.empty() ? explain(error, app) : unexpected(extras.front(), app));
    }
    code = app.exit(error);  // prints what --help or --version asked for
  }
  if (std::fflush(stdout) != 0) throw Error(fmt::format("cannot print the result: {}", std::strerror(errno)));
  return code;
}

}  // namespace signvote::cli
