// A run spread over the ranks of a cluster's job.
#pragma once

#include "engine/mpi/mpi_session.h"
#include "run/train.h"

namespace signvote {

/// This rank's part of the run. `session` and `hooks` must outlive the engine; `hooks` is told if a stop is
/// asked for while other ranks do not answer. REQUIRES: at most as many ranks as workers.
EnginePlan mpi_engine(const TrainConfig& config, const MpiSession& session, const TrainHooks& hooks);

}  // namespace signvote
