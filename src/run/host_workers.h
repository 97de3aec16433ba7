// Which rank of a job hosts which workers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace signvote {

/// Deals out the workers by batch size, the largest first, each to the rank with the fewest samples so far.
/// Returns the workers of every rank, ascending. REQUIRES: 1 <= ranks <= batches.size().
std::vector<std::vector<std::uint32_t>> host_workers(std::span<const std::uint32_t> batches,
                                                     std::uint32_t ranks);

}  // namespace signvote
