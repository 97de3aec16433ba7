#include "run/host_workers.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>
#include <tuple>

namespace signvote {

std::vector<std::vector<std::uint32_t>> host_workers(std::span<const std::uint32_t> batches,
                                                     std::uint32_t ranks) {
  assert(ranks >= 1 && ranks <= batches.size());
  std::vector<std::uint32_t> order(batches.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::greater{}, [&](std::uint32_t worker) { return batches[worker]; });
  std::vector<std::vector<std::uint32_t>> hosted(ranks);
  std::vector<std::uint64_t> samples(ranks);
  for (const std::uint32_t worker : order) {
    std::uint32_t best = 0;
    // Among ranks with equally many samples, the one with fewer workers is next, so that each gets at least
    // one.
    for (std::uint32_t r = 1; r < ranks; ++r)
      if (std::tuple(samples[r], hosted[r].size()) < std::tuple(samples[best], hosted[best].size())) best = r;
    samples[best] += batches[worker];
    hosted[best].push_back(worker);
  }
  for (auto& workers : hosted) std::ranges::sort(workers);
  return hosted;
}

}  // namespace signvote
