// What a worker of a server keeps over a kill.
#include "run/worker_memory.h"

#include <gtest/gtest.h>

#include <fstream>

#include "signvote/error.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

constexpr std::size_t kSize = 100;
constexpr std::size_t kMemory = 2 * kSize;  // a momentum and what is unsent

LastVote some_vote(std::uint64_t round) {
  LastVote vote{round, SignVector(kSize), {7, 12.5}};
  for (std::size_t i = 0; i < kSize; i += 3) vote.ballot.set(i, i % 2 == 0 ? 1 : -1);
  return vote;
}

class KeptMemory : public testing::Test {
 protected:
  /// What a process of worker 2 of run 5 finds.
  bool load(std::uint64_t run_id = 5, std::uint32_t worker = 2) {
    return WorkerMemory(folder_ / "state", run_id, worker).load(kSize, vote_, memory_);
  }
  void save(std::uint64_t round) {
    WorkerMemory(folder_ / "state", 5, 2).save(some_vote(round), std::vector<float>(kMemory, 0.5F));
  }

  TemporaryFolder folder_;
  std::optional<LastVote> vote_;
  std::vector<float> memory_ = std::vector<float>(kMemory);
};

TEST_F(KeptMemory, is_the_last_that_was_saved) {
  EXPECT_FALSE(load()) << "nothing was saved";
  EXPECT_FALSE(vote_);
  save(3);
  save(4);
  ASSERT_TRUE(load());
  EXPECT_EQ(vote_->round, 4U);
  EXPECT_EQ(vote_->ballot, some_vote(4).ballot);
  EXPECT_EQ(vote_->loss, some_vote(4).loss);
  EXPECT_EQ(memory_, std::vector<float>(kMemory, 0.5F));
}

TEST_F(KeptMemory, of_another_run_or_worker_is_refused) {
  save(3);
  EXPECT_THROW(load(6, 2), ConfigError);
  EXPECT_THROW(load(5, 1), ConfigError);
  memory_.resize(kMemory + 1);
  EXPECT_THROW(load(), DataError);
  EXPECT_EQ(memory_, std::vector<float>(kMemory + 1)) << "nothing was changed";
}

TEST_F(KeptMemory, that_is_damaged_is_refused) {
  save(3);
  std::ofstream(folder_ / "state" / "memory.bin", std::ios::in | std::ios::binary).seekp(90).put('x');
  EXPECT_THROW(load(), DataError);
}

TEST_F(KeptMemory, belongs_to_one_process) {
  const WorkerMemory first(folder_ / "state", 5, 2);
  EXPECT_THROW(WorkerMemory(folder_ / "state", 5, 2), DataError);
}

}  // namespace
}  // namespace signvote
