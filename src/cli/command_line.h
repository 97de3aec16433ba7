// The command line that signvote and signvote-compute have in common.
#pragma once

#include "cli/commands.h"

namespace signvote::cli {

/// Makes `app` the program, with all its subcommands. The others must outlive `app`.
void add_commands(CLI::App& app, const Computing& computing, Action& action);

/// Reads the command line and does what it says. Returns the exit code; throws ConfigError for a command line
/// that makes no sense.
int run_command_line(int argc, char** argv, const Computing& computing);

}  // namespace signvote::cli
