#include "run/worker.h"

#include <fmt/format.h>

#include "base/text.h"
#include "cli/compute/commands.h"
#include "cli/compute/hooks.h"
#include "cli/launcher.h"
#include "signvote/error.h"
#include "signvote/version.h"

namespace signvote::cli {

int run_worker(const WorkerCommand& command) {
  WorkerOptions options;
  options.session.connect = command.connect;
  const TrainHooks hooks = logging_hooks();
  std::optional<TlsFiles> tls = command.tls;
  const auto use = [&tls](WorkerSessionOptions& session) {
    session.certificate = tls->keys().certificate;
    session.key = tls->keys().key;
    session.authority = tls->authority();
  };
  if (tls) {
    use(options.session);
    options.session.renew = [&](WorkerSessionOptions& session) {
      try {
        if (!tls->reload()) return false;
      } catch (const DataError& error) {
        hooks.warn(fmt::format("the changed certificates are not used: {}", error.what()));
        return false;
      }
      hooks.warn("the certificates were changed");
      use(session);
      return true;
    };
  }
  options.session.program = fmt::format("signvote {}", SIGNVOTE_VERSION);
  options.session.name = command.name;
  options.data = command.data;
  options.model = command.model;
  options.state = command.state;
  options.threads = command.threads;
  options.batch = command.batch;
  options.round_seconds = command.round_seconds;
  options.evaluate = command.evaluate;
  options.session.give_up_seconds = command.give_up_seconds;

  if (tls && !tls->warning().empty()) hooks.warn(tls->warning());
  const TrainResult result = work(options, hooks);
  hooks.warn(result.finished
                 ? fmt::format("the run is finished, {}", counted(result.rounds, "round"))
                 : fmt::format("stopped in round {}; go on with: {}", result.rounds + 1, typed_command()));
  return result.finished ? 0 : kInterrupted;
}

}  // namespace signvote::cli
