#include "run/mpi.h"

#include <fmt/format.h>

#include <utility>

#include "engine/mpi/mpi_engine.h"
#include "run/host_workers.h"
#include "signvote/error.h"

namespace signvote {

EnginePlan mpi_engine(const TrainConfig& config, const MpiSession& session,
                      std::function<bool()> stop_requested, std::function<void(const std::string&)> warn) {
  if (session.size() > *config.workers)
    throw ConfigError(fmt::format("{} ranks for {} workers; start at most as many ranks as workers",
                                  session.size(), *config.workers));
  MpiEngineOptions options;
  options.run_id = config.run_id();
  options.folder = config.out;
  options.hosted = host_workers(config.batch_sizes(), session.size());
  options.stop_requested = std::move(stop_requested);
  if (session.leads())
    options.stop_while_waiting = [warn = std::move(warn), out = config.out] {
      warn(
          fmt::format("asked to stop while other ranks are at work; if one of them died, go on from the last "
                      "save with: signvote train --resume '{}'",
                      out));
    };
  EnginePlan plan;
  plan.hosted = options.hosted[session.rank()];
  plan.make = [options, &session](const TallyOptions& tally, const ParallelFor& parallel) mutable {
    options.tally = tally;
    return std::make_unique<MpiEngine>(session, options, parallel);
  };
  return plan;
}

}  // namespace signvote
