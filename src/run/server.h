// A run whose workers come and go: the server's side. It computes no gradients.
#pragma once

#include "engine/grpc/server_engine.h"
#include "learn/dataset.h"
#include "run/config.h"
#include "run/train.h"

namespace signvote {

/// Runs, or goes on with, the run in the folder config.out. Of `options` it fills in what follows from the
/// settings. hooks.warn is the log: what it is told is worth a line with the time. Throws ConfigError if
/// the folder holds a run of other settings.
TrainResult serve(const TrainConfig& config, ServerEngineOptions options, const Dataset& dataset,
                  const TrainHooks& hooks);

}  // namespace signvote
