// The server's side of a run whose workers come and go. It computes no gradients.
#pragma once

#include "engine/grpc/server_engine.h"
#include "run/config.h"
#include "run/train.h"

namespace signvote {

/// Runs or continues the run in the folder config.out. Fills in those of `options` that follow from the
/// settings. With `own_batches` workers may use other batches than these. hooks.warn is the log. Throws
/// ConfigError if the folder holds a run of other settings.
TrainResult serve(const TrainConfig& config, ServerEngineOptions options, bool own_batches,
                  const MakeTrainee& make, const TrainHooks& hooks);

}  // namespace signvote
