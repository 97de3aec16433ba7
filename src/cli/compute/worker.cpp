#include "run/worker.h"

#include <fmt/format.h>

#include "cli/compute/commands.h"
#include "cli/compute/hooks.h"
#include "signvote/version.h"

namespace signvote::cli {

int run_worker(const WorkerCommand& command) {
  WorkerOptions options;
  options.session.connect = command.connect;
  if (command.tls.keys) {
    options.session.certificate = command.tls.keys->certificate;
    options.session.key = command.tls.keys->key;
    options.session.authority = command.tls.authority;
  }
  options.session.program = fmt::format("signvote {}", SIGNVOTE_VERSION);
  options.session.name = command.name;
  options.data = command.data;
  options.threads = command.threads;
  options.batch = command.batch;
  options.round_seconds = command.round_seconds;
  options.session.give_up_seconds = command.give_up_seconds;

  const TrainHooks hooks = logging_hooks();
  if (!command.tls.warning.empty()) hooks.warn(command.tls.warning);
  const TrainResult result = work(options, hooks);
  hooks.warn(result.finished ? fmt::format("the run is finished, {} rounds", result.rounds)
                             : fmt::format("stopped in round {}", result.rounds + 1));
  return result.finished ? 0 : kInterrupted;
}

}  // namespace signvote::cli
