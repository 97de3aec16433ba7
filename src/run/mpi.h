// A run spread over the ranks of a cluster's job.
#pragma once

#include <functional>
#include <string>

#include "engine/mpi/mpi_session.h"
#include "run/train.h"

namespace signvote {

/// This rank's part of the run. `warn` gets one line if a stop is asked for and other ranks do not
/// answer. `session` must outlive the engine. Throws ConfigError for more ranks than workers.
EnginePlan mpi_engine(const TrainConfig& config, const MpiSession& session,
                      std::function<bool()> stop_requested, std::function<void(const std::string&)> warn);

}  // namespace signvote
