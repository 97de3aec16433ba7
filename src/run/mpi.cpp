#include "run/mpi.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <numeric>
#include <tuple>
#include <utility>

#include "engine/mpi/mpi_engine.h"
#include "signvote/error.h"

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
    // Equal loads: to whom has fewer workers, so that nobody is left without.
    for (std::uint32_t r = 1; r < ranks; ++r)
      if (std::tuple(samples[r], hosted[r].size()) < std::tuple(samples[best], hosted[best].size())) best = r;
    samples[best] += batches[worker];
    hosted[best].push_back(worker);
  }
  for (auto& workers : hosted) std::ranges::sort(workers);
  return hosted;
}

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
      warn(fmt::format("asked to stop while other ranks are at work; if one of them died, go on from the last "
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
