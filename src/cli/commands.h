// The subcommands: their flags, and the checks of what is given. Results go to stdout, remarks to stderr.
#pragma once

#include <functional>

#include "cli/computing.h"

namespace CLI {
class App;
}

namespace signvote::cli {

/// Carries out the chosen command and returns the exit code; failures are thrown.
using Action = std::function<int()>;

// Each adds a subcommand to `app`, which sets `action` when it is chosen. `action` and `computing` must
// outlive `app`.
void add_train(CLI::App& app, const Computing& computing, Action& action);
void add_reproduce(CLI::App& app, const Computing& computing, Action& action);
void add_data(CLI::App& app, Action& action);
void add_eval(CLI::App& app, const Computing& computing, Action& action);
void add_server(CLI::App& app, const Computing& computing, Action& action);
void add_worker(CLI::App& app, const Computing& computing, Action& action);
void add_journal(CLI::App& app, const Computing& computing, Action& action);
void add_inspect(CLI::App& app, const Computing& computing, Action& action);
void add_report(CLI::App& app, Action& action);
void add_certs(CLI::App& app, Action& action);
void add_completion(CLI::App& app, Action& action);

}  // namespace signvote::cli
