// signvote-manual: writes what is made from the command line, when signvote is built and for docs/.
//   signvote-manual man FOLDER          signvote.1, signvote-train.1, ...
//   signvote-manual completion FOLDER   signvote (bash), _signvote (zsh)
//   signvote-manual reference FOLDER    commands.md, settings.md

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>

#include "base/files.h"
#include "cli/command_line.h"
#include "cli/manual.h"

int main(int argc, char** argv) {
  using namespace signvote::cli;
  try {
    CLI::App app;
    Action action;
    const Computing computing;
    add_commands(app, computing, action);
    const Command program = describe(app);
    const std::string what = argc == 3 ? argv[1] : "";
    std::map<std::string, std::string> files;
    if (what == "man") files = man_pages(program);
    if (what == "completion")
      files = {{"signvote", bash_completion(program)}, {"_signvote", zsh_completion(program)}};
    if (what == "reference") files = reference_pages(program);
    if (files.empty()) throw std::runtime_error("signvote-manual man|completion|reference FOLDER");
    std::filesystem::create_directories(argv[2]);
    for (const auto& [name, text] : files)
      signvote::write_file_atomically(std::filesystem::path(argv[2]) / name, text);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
