// One worker of a run on a server elsewhere: the server tells it what to train; it computes its gradients,
// votes, and steps by the verdicts. It survives a broken network and a restart of the server.
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
  std::string data;                    // the data set's folder or text; empty: the cache
  std::string model;                   // the model file, if the server's run trains one
  std::string state;                   // folder in which its memory is kept; empty: nowhere
  std::uint32_t threads = 0;           // 0: one per core
  std::optional<std::uint32_t> batch;  // samples a round; none: what the run's settings say
  double round_seconds = 0;            // if > 0: use the batch that takes this long, found by measuring
  bool evaluate = false;               // never vote, but test the model of a server that cannot
};

/// Works until the run is finished. hooks.warn gets a line for everything that happens.
TrainResult work(const WorkerOptions& options, const TrainHooks& hooks);

/// The batch for the next round: what a machine that took `seconds` for `samples` can do in
/// `round_seconds`, within [1, share]; `samples` itself if that is nearly the same.
std::uint32_t fitting_batch(std::uint32_t samples, double seconds, double round_seconds, std::size_t share);

}  // namespace signvote
