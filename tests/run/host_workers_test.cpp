// How workers are dealt out to ranks.
#include "run/host_workers.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>

namespace signvote {
namespace {

TEST(HostWorkers, every_worker_has_one_rank_and_no_rank_is_idle) {
  EXPECT_TRUE(rc::check("any batches, any ranks", [] {
    const auto ranks = *rc::gen::inRange<std::uint32_t>(1, 9);
    const auto workers = *rc::gen::inRange<std::size_t>(ranks, 40);
    const auto batches =
        *rc::gen::container<std::vector<std::uint32_t>>(workers, rc::gen::inRange<std::uint32_t>(0, 100));
    const auto hosted = host_workers(batches, ranks);
    RC_ASSERT(hosted.size() == ranks);
    std::vector<std::uint32_t> all;
    std::uint64_t least = ~std::uint64_t{0};
    std::uint64_t most = 0;
    for (const auto& mine : hosted) {
      RC_ASSERT(!mine.empty());
      RC_ASSERT(std::ranges::is_sorted(mine));
      all.insert(all.end(), mine.begin(), mine.end());
      std::uint64_t samples = 0;
      for (const std::uint32_t worker : mine) samples += batches[worker];
      least = std::min(least, samples);
      most = std::max(most, samples);
    }
    std::ranges::sort(all);
    std::vector<std::uint32_t> expected(workers);
    std::iota(expected.begin(), expected.end(), 0U);
    RC_ASSERT(all == expected);
    // The rank with the most samples had the fewest before it got its last worker.
    RC_ASSERT(most <= least + *std::ranges::max_element(batches));
    RC_ASSERT(host_workers(batches, ranks) == hosted);
  }));
}

}  // namespace
}  // namespace signvote
