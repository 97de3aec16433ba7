#include "run/mpi.h"

#include <fmt/format.h>

#include "engine/mpi/mpi_engine.h"
#include "run/host_workers.h"

namespace signvote {

EnginePlan mpi_engine(const TrainConfig& config, const MpiSession& session, const TrainHooks& hooks) {
  MpiEngineOptions options;
  options.run_id = config.run_id();
  options.folder = config.out;
  options.hosted = host_workers(config.batch_sizes(), session.size());
  options.stop_requested = [&hooks] { return hooks.stop_requested(); };
  if (session.leads() && hooks.warn)
    options.stop_while_waiting = [&hooks, out = config.out] {
      hooks.warn(
          fmt::format("asked to stop while other ranks are at work; if one of them died, go on from the last "
                      "save with: signvote train --resume '{}'",
                      out));
    };
  EnginePlan plan;
  plan.hosted = options.hosted[session.rank()];
  plan.make = [options, &session](const TallyOptions& tally, const ParallelFor& parallel) mutable {
    options.tally = tally;
    return make_mpi_engine(session, options, parallel);
  };
  return plan;
}

}  // namespace signvote
