// The shards of a tally beside checkpoint.bin: which files are theirs, and which of them a tally reads.
#include "engine/checkpoint.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <set>
#include <string>

#include "signvote/error.h"
#include "signvote/sign_vector.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

constexpr std::uint64_t kSize = 300;

/// Of the coordinates [begin, end), after three rounds in which worker 1 is wrong on every other one.
Tally tally(std::uint64_t begin, std::uint64_t end) {
  Tally result({Method::it, 3, begin, end, 1, 10});
  for (int t = 0; t < 3; ++t) {
    std::vector<SignVector> ballots(3, SignVector(end - begin));
    for (std::uint64_t i = begin; i < end; ++i)
      for (std::uint32_t m = 0; m < 3; ++m) ballots[m].set(i - begin, m == 1 && i % 2 == 0 ? -1 : 1);
    SignVector verdict;
    result.decide(std::vector<std::optional<SignView>>{ballots[0], ballots[1], ballots[2]}, verdict);
  }
  return result;
}

class Shards : public testing::Test {
 protected:
  /// The names of the shards that a checkpoint after three rounds has, beside its own up to coordinate 64.
  std::vector<std::string> found() {
    RunState state;
    state.progress.rounds = 3;
    state.parameters.resize(kSize);
    save_checkpoint(state, tally(0, 64), folder_.path());
    return load_checkpoint(folder_.path(), {})->shards;
  }
  void write(const std::string& name) { std::ofstream(folder_ / name) << "a user's"; }

  TemporaryFolder folder_;
};

TEST_F(Shards, are_removed_and_nothing_else) {
  const std::set<std::string> others = {"shard-00000.tfrecord",
                                        "shard-notes.txt",
                                        "shard-1-2",
                                        "shard-1-2-3",
                                        "shard-1-2-3.bin.old",
                                        "shard-1-2-3.bin.tmp.tmp",
                                        "shard-01-2-3.bin",
                                        "shard-+1-2-3.bin",
                                        "shard-1--2-3.bin",
                                        "shard-1-3-3.bin",
                                        "shard- 1-2-3.bin",
                                        "my-shard-1-2-3.bin",
                                        "shard-1-2-3.bin.TMP",
                                        "checkpoint.bin",
                                        "shard-",
                                        "shard-1-2-99999999999999999999999.bin"};
  for (const std::string& name : others) write(name);
  const std::set<std::string> folders = {"shard-4-0-64.bin", "shard-folder"};
  for (const std::string& name : folders) {
    std::filesystem::create_directory(folder_ / name);
    write(name + "/inside");
  }
  for (const char* name : {"shard-1-2-3.bin", "shard-5-64-128.bin.tmp", "shard-18446744073709551615-0-1.bin"})
    write(name);
  write("shard-7-0-64.bin");
  remove_parts(folder_.path(), {"shard-7-0-64.bin"}, 7);
  std::set<std::string> left = others;
  left.insert(folders.begin(), folders.end());
  left.insert("shard-7-0-64.bin");
  EXPECT_EQ(folder_.names(), left);
}

class Memories : public testing::Test {
 protected:
  RunState state(std::uint64_t rounds, std::vector<std::vector<float>> memories) const {
    RunState result;
    result.progress.rounds = rounds;
    result.parameters.resize(kSize);
    result.memories = std::move(memories);
    return result;
  }

  static constexpr std::array<std::uint32_t, 3> kAll = {0, 1, 2};
  TemporaryFolder folder_;
};

TEST_F(Memories, are_those_of_the_checkpoints_round) {
  const std::vector<std::vector<float>> first = {{1, 2}, {3, 4}, {5, 6}};
  const std::vector<std::vector<float>> second = {{7, 8}, {9, 0}, {1, 1}};
  save_memories(state(3, first), folder_.path());
  save_checkpoint(state(3, first), tally(0, kSize), folder_.path());
  save_memories(state(4, second), folder_.path());  // and then the process dies
  EXPECT_EQ(load_checkpoint(folder_.path(), kAll)->memories, first);
  EXPECT_EQ(load_checkpoint(folder_.path(), std::array<std::uint32_t, 1>{1})->memories,
            (std::vector<std::vector<float>>{{}, {3, 4}}))
      << "who hosts one worker reads one";
  save_checkpoint(state(4, second), tally(0, kSize), folder_.path());
  EXPECT_EQ(load_checkpoint(folder_.path(), kAll)->memories, second);
  EXPECT_EQ(folder_.names(),
            (std::set<std::string>{"checkpoint.bin", "memory-4-0.bin", "memory-4-1.bin", "memory-4-2.bin"}));
}

TEST_F(Memories, must_be_those_of_all_workers) {
  save_memories(state(3, {{1, 2}, {}, {5, 6}}), folder_.path());
  EXPECT_THROW(save_checkpoint(state(3, {{1, 2}}), tally(0, kSize), folder_.path()), DataError);
  save_memories(state(3, {{}, {3, 4}}), folder_.path());
  EXPECT_NO_THROW(save_checkpoint(state(3, {{1, 2}}), tally(0, kSize), folder_.path()));
}

TEST_F(Memories, that_are_damaged_are_named) {
  save_memories(state(3, {{1, 2}, {3, 4}, {5, 6}}), folder_.path());
  save_checkpoint(state(3, {{1, 2}}), tally(0, kSize), folder_.path());
  std::ofstream(folder_ / "memory-3-1.bin", std::ios::in | std::ios::binary).seekp(100).put('x');
  EXPECT_THROW(static_cast<void>(load_checkpoint(folder_.path(), kAll)), DataError);
}

TEST_F(Shards, are_found_by_their_whole_name) {
  save_shard(tally(64, 128), folder_.path());
  write("shard-3-128-300.bin.tmp");
  write("shard-2-128-300.bin");
  write("shard-3-128-128.bin");  // leads to itself
  EXPECT_THROW(found(), DataError);
  EXPECT_EQ(checkpoint_rounds(folder_.path()), 0U);
  save_shard(tally(128, kSize), folder_.path());
  const std::vector<std::string> expected = {"shard-3-64-128.bin", "shard-3-128-300.bin"};
  EXPECT_EQ(found(), expected);
  EXPECT_EQ(checkpoint_rounds(folder_.path()), 3U);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "shard-2-128-300.bin")) << "which no longer counts";
}

TEST_F(Shards, are_read_only_where_they_are_needed) {
  for (const std::uint64_t begin : {64, 128, 192}) save_shard(tally(begin, begin + 64), folder_.path());
  save_shard(tally(256, kSize), folder_.path());
  RunState checkpoint;
  checkpoint.tally = tally(0, 64).snapshot();
  checkpoint.shards = found();
  ASSERT_EQ(checkpoint.shards.size(), 4U);
  write("shard-3-192-256.bin");  // damages it
  const auto restored = [&](std::uint64_t begin, std::uint64_t end) {
    Tally result({Method::it, 3, begin, end, 1, 10});
    restore_tally(checkpoint, folder_.path(), result);
    return result.snapshot() == tally(begin, end).snapshot();
  };
  EXPECT_TRUE(restored(0, 64));
  EXPECT_TRUE(restored(64, 192));
  EXPECT_TRUE(restored(100, 150));
  EXPECT_TRUE(restored(256, kSize));
  EXPECT_TRUE(restored(kSize, kSize)) << "of a rank without coordinates";
  EXPECT_THROW(restored(0, kSize), DataError);
  EXPECT_THROW(restored(100, 193), DataError);
  std::filesystem::remove(folder_ / "shard-3-192-256.bin");
  EXPECT_TRUE(restored(64, 192));
  EXPECT_THROW(restored(255, 256), DataError);
  checkpoint.shards.pop_back();
  EXPECT_THROW(restored(256, kSize), DataError) << "which nobody has";
  checkpoint.shards.emplace_back("../shard-3-256-300.bin");
  EXPECT_THROW(restored(0, 64), DataError) << "which is no name";
}

}  // namespace
}  // namespace signvote
