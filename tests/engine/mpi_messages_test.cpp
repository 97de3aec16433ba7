// What ranks say to each other, and how workers and coordinates are dealt out: all of the cluster's engine
// that can be tested without one.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/mpi/messages.h"
#include "engine/mpi/mpi_engine.h"
#include "signvote/wire.h"
#include "tally/votes.h"

namespace signvote {
namespace {

using testing::random_signs;

constexpr mpi::RoundId kRound{7, 3};

TEST(MpiHosting, EveryWorkerLivesInOnePlaceAndNobodyIsIdle) {
  EXPECT_TRUE(rc::check("largest first, to whom has least", [] {
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
    // Who has most got its last worker when it had least.
    RC_ASSERT(most <= least + *std::ranges::max_element(batches));
    RC_ASSERT(host_workers(batches, ranks) == hosted);
  }));
}

TEST(MpiShards, CoverTheModelInOrderAndEvenly) {
  EXPECT_TRUE(rc::check("any size, any ranks", [] {
    const auto size = *rc::gen::inRange<std::uint64_t>(0, 5000);
    const auto ranks = *rc::gen::inRange<std::uint32_t>(1, 90);
    std::uint64_t end = 0;
    std::uint64_t words = 0;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const mpi::Shard shard = mpi::shard_of(size, ranks, r);
      RC_ASSERT(shard.begin == end);
      RC_ASSERT(shard.first_word == words);
      RC_ASSERT(SignVector::words(shard.size()) == shard.words);
      RC_ASSERT(shard.words >= SignVector::words(size) / ranks);
      RC_ASSERT(shard.words <= SignVector::words(size) / ranks + 1);
      end = shard.end;
      words += shard.words;
    }
    RC_ASSERT(end == size);
  }));
}

/// A rank's message to another, and what is needed to read it.
struct Sent {
  mpi::Shard to;
  std::vector<SignVector> ballots;
  mpi::WorkersTrailer trailer;
  std::vector<std::byte> bytes;
};

Sent random_message(std::uint64_t seed, std::uint64_t size, std::uint32_t ranks, std::uint32_t rank,
                    std::size_t workers) {
  std::mt19937_64 random(seed);
  Sent sent;
  sent.to = mpi::shard_of(size, ranks, rank);
  sent.trailer.stop = random() % 2 == 0;
  for (std::size_t m = 0; m < workers; ++m) {
    sent.ballots.push_back(random_signs(size, m % 2 == 0 ? 0 : 0.3, random));
    sent.trailer.present.push_back(random() % 3 == 0 ? 0 : 1);
    sent.trailer.losses.push_back(static_cast<double>(random() % 100) / 3);
  }
  std::vector<const SignVector*> present;
  for (std::size_t m = 0; m < workers; ++m)
    if (sent.trailer.present[m] != 0) present.push_back(&sent.ballots[m]);
  SignVector joined;
  mpi::encode_ballots(kRound, 5, sent.to, present, sent.trailer, joined, sent.bytes);
  return sent;
}

bool read(const Sent& sent, std::span<const std::byte> bytes, std::vector<SignVector>& slices,
          mpi::WorkersTrailer& trailer, std::string& problem, const mpi::RoundId& id = kRound,
          std::uint32_t first_worker = 5) {
  slices.resize(sent.ballots.size());
  std::vector<SignVector*> out;
  for (SignVector& slice : slices) out.push_back(&slice);
  SignVector joined;
  return mpi::decode_ballots(bytes, id, first_worker, sent.to, out, trailer, joined, problem);
}

TEST(MpiMessages, BallotsComeBackAsSlices) {
  EXPECT_TRUE(rc::check("any shard, any workers", [](std::uint64_t seed) {
    const auto size = *rc::gen::inRange<std::uint64_t>(1, 2000);
    const auto ranks = *rc::gen::inRange<std::uint32_t>(1, 8);
    const auto rank = *rc::gen::inRange<std::uint32_t>(0, ranks);
    const auto workers = *rc::gen::inRange<std::size_t>(1, 6);
    const Sent sent = random_message(seed, size, ranks, rank, workers);
    RC_ASSERT(sent.bytes.size() <= mpi::most_ballot_bytes(sent.to, workers));
    std::vector<SignVector> slices;
    mpi::WorkersTrailer trailer;
    std::string problem;
    RC_ASSERT(read(sent, sent.bytes, slices, trailer, problem));
    RC_ASSERT(trailer.stop == sent.trailer.stop);
    RC_ASSERT(trailer.present == sent.trailer.present);
    RC_ASSERT(trailer.losses == sent.trailer.losses);
    for (std::size_t m = 0; m < workers; ++m) {
      if (trailer.present[m] == 0) continue;
      const SignView slice = mpi::slice(sent.ballots[m], sent.to);
      RC_ASSERT(slices[m] == slice);
      for (std::uint64_t i = 0; i < slice.size(); ++i)
        RC_ASSERT(slice[i] == sent.ballots[m][sent.to.begin + i]);
    }
  }));
}

TEST(MpiMessages, NothingDamagedIsTakenForBallots) {
  const Sent sent = random_message(11, 500, 3, 2, 4);
  std::vector<SignVector> slices;
  mpi::WorkersTrailer trailer;
  std::string problem;
  ASSERT_TRUE(read(sent, sent.bytes, slices, trailer, problem)) << problem;
  for (std::size_t i = 0; i < sent.bytes.size(); ++i) {
    auto flipped = sent.bytes;
    flipped[i] ^= std::byte{0x04};
    problem.clear();
    EXPECT_FALSE(read(sent, flipped, slices, trailer, problem)) << "byte " << i;
    EXPECT_FALSE(problem.empty());
    EXPECT_EQ(problem.find('\n'), std::string::npos);
    EXPECT_FALSE(read(sent, std::span(sent.bytes).first(i), slices, trailer, problem)) << "cut to " << i;
  }
  auto longer = sent.bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(read(sent, longer, slices, trailer, problem));
  EXPECT_FALSE(read(sent, sent.bytes, slices, trailer, problem, {7, 4})) << "another round";
  EXPECT_FALSE(read(sent, sent.bytes, slices, trailer, problem, {8, 3})) << "another run";
  EXPECT_FALSE(read(sent, sent.bytes, slices, trailer, problem, kRound, 6)) << "another rank";
}

// Two ballots of one coordinate each are two words, of which 63 bits of the first belong to nobody.
TEST(MpiMessages, SignsBetweenBallotsAreRefused) {
  Sent sent = random_message(1, 64 + 1, 2, 1, 2);
  ASSERT_EQ(sent.to.size(), 1U);
  const SignVector two_words = [] {
    std::mt19937_64 random(2);
    return random_signs(65, 0, random);
  }();
  sent.trailer.present = {1, 1};
  SignVector joined;
  mpi::encode_ballots(kRound, 5, sent.to, std::vector<const SignVector*>{&sent.ballots[0], &sent.ballots[1]},
                      sent.trailer, joined, sent.bytes);
  std::vector<std::byte> forged;
  encode({MessageKind::ballot, kRound.run_id, kRound.round, 5, 65}, two_words, forged);
  const std::size_t trailer_bytes = 1 + 2 * 9 + 8;
  forged.insert(forged.end(), sent.bytes.end() - trailer_bytes, sent.bytes.end());
  std::vector<SignVector> slices;
  mpi::WorkersTrailer trailer;
  std::string problem;
  EXPECT_FALSE(read(sent, forged, slices, trailer, problem));
  EXPECT_NE(problem.find("past its last coordinate"), std::string::npos) << problem;
  EXPECT_TRUE(read(sent, sent.bytes, slices, trailer, problem)) << problem;
}

TEST(MpiMessages, VerdictsComeBackAndNothingDamagedDoes) {
  std::mt19937_64 random(3);
  const SignVector whole = random_signs(500, 0.1, random);
  const mpi::Shard from = mpi::shard_of(500, 3, 1);
  const SignView slice = mpi::slice(whole, from);
  mpi::ShardTrailer sent{{4, 500, 2, 300}, {7, -1, 1LL << 40}};
  std::vector<std::byte> bytes;
  mpi::encode_verdict(kRound, slice, sent, bytes);
  EXPECT_LE(bytes.size(), mpi::most_verdict_bytes(from, 3));
  EXPECT_EQ(sent.traffic.verdict_bytes, 300 + bytes.size()) << "a message counts itself";
  mpi::ShardTrailer trailer;
  trailer.totals.resize(3);
  SignVector read_slice;
  std::string problem;
  ASSERT_TRUE(mpi::decode_verdict(bytes, kRound, from, read_slice, trailer, problem)) << problem;
  EXPECT_EQ(read_slice, slice);
  EXPECT_EQ(trailer.traffic, sent.traffic);
  EXPECT_EQ(trailer.totals, sent.totals);
  SignVector placed = whole;
  for (std::uint64_t i = from.begin; i < from.end; ++i) placed.set(i, 0);
  mpi::place_slice(read_slice, from, placed);
  EXPECT_EQ(placed, whole);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto flipped = bytes;
    flipped[i] ^= std::byte{0x20};
    EXPECT_FALSE(mpi::decode_verdict(flipped, kRound, from, read_slice, trailer, problem)) << "byte " << i;
    EXPECT_FALSE(mpi::decode_verdict(std::span(bytes).first(i), kRound, from, read_slice, trailer, problem));
  }
}

}  // namespace
}  // namespace signvote
