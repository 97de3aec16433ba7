// A run spread over the ranks of a cluster's job.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/mpi/mpi_session.h"
#include "run/train.h"

namespace signvote {

/// Which worker lives where: the largest batches first, each to the rank that has least so far.
/// Returns every rank's workers, ascending. REQUIRES: 1 <= ranks <= batches.size().
std::vector<std::vector<std::uint32_t>> host_workers(std::span<const std::uint32_t> batches,
                                                     std::uint32_t ranks);

/// This rank's part of the run. `warn` gets one line if a stop is asked for and other ranks do not
/// answer. `session` must outlive the engine. Throws ConfigError for more ranks than workers.
EnginePlan mpi_engine(const TrainConfig& config, const MpiSession& session,
                      std::function<bool()> stop_requested, std::function<void(const std::string&)> warn);

}  // namespace signvote
