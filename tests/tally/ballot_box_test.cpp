// The ballot box: it decides what the tally would decide, and a refused message changes nothing.
#include "signvote/ballot_box.h"

#include <gtest/gtest.h>

#include <random>

#include "signvote/wire.h"
#include "tally/votes.h"

namespace signvote {
namespace {

using testing::random_signs;

constexpr std::uint64_t kRun = 77;
constexpr std::size_t kSize = 130;

std::vector<std::byte> ballot(std::uint32_t worker, std::uint64_t round, const SignVector& signs,
                              std::uint64_t run = kRun) {
  std::vector<std::byte> bytes;
  encode({MessageKind::ballot, run, round, worker, signs.size()}, signs, bytes);
  return bytes;
}

TEST(BallotBox, decides_what_the_tally_decides) {
  std::mt19937_64 random(1);
  Tally tally({Method::it, 3, 0, kSize, 2, 10});
  Tally twin({Method::it, 3, 0, kSize, 2, 10});
  BallotBox box(tally, kRun);
  for (std::uint64_t round = 0; round < 6; ++round) {
    ASSERT_EQ(box.round(), round);
    std::vector<SignVector> signs;
    for (int m = 0; m < 3; ++m) signs.push_back(random_signs(kSize, 0.2, random));
    std::vector<std::optional<SignView>> present = testing::all_present(signs);
    present[round % 3].reset();
    std::string problem;
    for (std::uint32_t m = 0; m < 3; ++m)
      if (present[m]) {
        ASSERT_TRUE(box.cast(m, ballot(m, round, signs[m]), problem)) << problem;
      }
    SignVector expected;
    twin.decide(present, expected);
    SignVector verdict;
    ASSERT_TRUE(decode(box.close(), {MessageKind::verdict, kRun, round, 0, kSize}, verdict, problem))
        << problem;
    EXPECT_EQ(verdict, expected);
  }
}

TEST(BallotBox, refuses_what_is_not_this_rounds_ballot) {
  std::mt19937_64 random(2);
  Tally tally({Method::it, 2, 0, kSize, 2, 10});
  BallotBox box(tally, kRun);
  const SignVector signs = random_signs(kSize, 0.1, random);
  std::string problem;
  const auto refused = [&](std::uint32_t worker, const std::vector<std::byte>& bytes, const char* word) {
    problem.clear();
    EXPECT_FALSE(box.cast(worker, bytes, problem));
    EXPECT_NE(problem.find(word), std::string::npos) << problem;
    EXPECT_EQ(problem.find('\n'), std::string::npos);
  };
  refused(0, ballot(0, 1, signs), "round");
  refused(0, ballot(1, 0, signs), "worker");
  refused(2, ballot(2, 0, signs), "worker");
  refused(0, ballot(0, 0, signs, 78), "run");
  refused(0, ballot(0, 0, random_signs(kSize + 1, 0, random)), "coordinates");
  std::vector<std::byte> damaged = ballot(0, 0, signs);
  damaged.back() ^= std::byte{1};
  refused(0, damaged, "");
  EXPECT_TRUE(box.cast(0, ballot(0, 0, signs), problem)) << "a good ballot after bad ones counts";
  refused(0, ballot(0, 0, signs), "already");
  SignVector verdict;
  ASSERT_TRUE(decode(box.close(), {MessageKind::verdict, kRun, 0, 0, kSize}, verdict, problem));
  EXPECT_EQ(verdict, signs) << "the only ballot decides";
  EXPECT_EQ(tally.rounds_of(0), 1U);
  EXPECT_EQ(tally.rounds_of(1), 0U) << "who was refused took no part";
}

}  // namespace
}  // namespace signvote
