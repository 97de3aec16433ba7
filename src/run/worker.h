// One worker of a run on a server elsewhere: it is told what to train, computes its gradients, votes, and
// steps by the verdicts. It outlives cuts of the network and restarts of the server.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "run/train.h"
#include "signvote/worker_session.h"

namespace signvote {

struct WorkerOptions {
  WorkerSessionOptions session;        // its log is hooks.warn
  std::string data;                    // the data set's folder; empty: the cache
  std::uint32_t threads = 0;           // 0: one per core
  std::optional<std::uint32_t> batch;  // samples a round; none: as the run's settings say
  double round_seconds = 0;            // > 0: the batch that takes this long, found by measuring
};

/// Works until the run is finished. hooks.warn is told of what happens, one line each.
TrainResult work(const WorkerOptions& options, const TrainHooks& hooks);

/// The batch for the next round: what a machine that took `seconds` for `samples` manages in
/// `round_seconds`, within [1, share]; `samples` itself if that is nearly it.
std::uint32_t fitting_batch(std::uint32_t samples, double seconds, double round_seconds, std::size_t share);

}  // namespace signvote
