// What ranks send to each other, and how coordinates are divided among them: all of the cluster's engine that
// can be tested without MPI.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <xxhash.h>

#include <cstring>
#include <random>

#include "engine/mpi/messages.h"
#include "tally/votes.h"

namespace signvote {
namespace {

using testing::random_signs;

constexpr mpi::MessageId kId{7, 3, 1};

TEST(MpiShards, cover_the_model_in_order_and_evenly) {
  EXPECT_TRUE(rc::check("any size, any ranks", [] {
    const auto size = *rc::gen::inRange<std::uint64_t>(0, 5000);
    const auto ranks = *rc::gen::inRange<std::uint32_t>(1, 90);
    std::uint64_t end = 0;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const mpi::Shard shard = mpi::shard_of(size, ranks, r);
      RC_ASSERT(shard.begin == end);
      RC_ASSERT(shard.begin % 64 == 0 || shard.begin == size);
      RC_ASSERT(SignVector::words(shard.size()) >= SignVector::words(size) / ranks);
      RC_ASSERT(SignVector::words(shard.size()) <= SignVector::words(size) / ranks + 1);
      end = shard.end;
    }
    RC_ASSERT(end == size);
  }));
}

/// A rank's message to another, and what went into it.
struct Sent {
  mpi::Shard to;
  std::vector<SignVector> ballots;
  std::vector<mpi::EncodedSlice> slices;
  std::vector<mpi::SentBallot> parts;
  mpi::RankWord word;
  std::vector<std::byte> bytes;
};

Sent random_message(std::uint64_t seed, std::uint64_t size, std::uint32_t ranks, std::uint32_t rank,
                    std::size_t workers) {
  std::mt19937_64 random(seed);
  Sent sent;
  sent.to = mpi::shard_of(size, ranks, rank);
  sent.word = {random() % 2 == 0, random()};
  sent.slices.resize(workers);
  for (std::size_t m = 0; m < workers; ++m) {
    sent.ballots.push_back(random_signs(size, m % 2 == 0 ? 0 : 0.3, random));
    mpi::encode_slice(mpi::slice(sent.ballots[m], sent.to), sent.slices[m]);
    const bool present = random() % 3 != 0;
    sent.parts.push_back({{static_cast<std::uint32_t>(m), static_cast<double>(random() % 100) / 3},
                          present ? &sent.slices[m] : nullptr});
  }
  mpi::encode_ballots(kId, sent.word, sent.parts, sent.bytes);
  return sent;
}

struct Received {
  explicit Received(const Sent& sent) : to(sent.to), ballots(sent.ballots.size()) {}

  bool read(std::span<const std::byte> bytes, const mpi::MessageId& id = kId) {
    problem.clear();
    return mpi::decode_ballots(bytes, id, to, word, ballots, problem);
  }

  mpi::Shard to;
  mpi::RankWord word;
  std::vector<mpi::ReceivedBallot> ballots;
  std::string problem;
};

TEST(MpiMessages, ballots_come_back_as_slices) {
  EXPECT_TRUE(rc::check("any shard, any workers, whatever was read before", [](std::uint64_t seed) {
    const auto size = *rc::gen::inRange<std::uint64_t>(1, 2000);
    const auto ranks = *rc::gen::inRange<std::uint32_t>(1, 8);
    const auto rank = *rc::gen::inRange<std::uint32_t>(0, ranks);
    const auto workers = *rc::gen::inRange<std::size_t>(1, 6);
    const Sent sent = random_message(seed, size, ranks, rank, workers);
    RC_ASSERT(sent.bytes.size() <= mpi::most_ballot_bytes(sent.to, workers));
    Received received(sent);
    RC_ASSERT(received.read(random_message(seed + 1, size, ranks, rank, workers).bytes));
    RC_ASSERT(received.read(sent.bytes));
    RC_ASSERT(received.word.stop == sent.word.stop);
    RC_ASSERT(received.word.digest == sent.word.digest);
    for (std::size_t m = 0; m < workers; ++m) {
      RC_ASSERT(received.ballots[m].loss == sent.parts[m].loss);
      RC_ASSERT(received.ballots[m].present == (sent.parts[m].slice != nullptr));
      if (received.ballots[m].present)
        RC_ASSERT(mpi::slice(sent.ballots[m], sent.to) == received.ballots[m].signs);
    }
  }));
}

TEST(MpiMessages, nothing_damaged_is_taken_for_ballots) {
  const Sent sent = random_message(11, 500, 3, 2, 4);
  Received received(sent);
  ASSERT_TRUE(received.read(sent.bytes)) << received.problem;
  for (std::size_t i = 0; i < sent.bytes.size(); ++i) {
    auto flipped = sent.bytes;
    flipped[i] ^= std::byte{0x04};
    EXPECT_FALSE(received.read(flipped)) << "byte " << i;
    EXPECT_FALSE(received.problem.empty());
    EXPECT_EQ(received.problem.find('\n'), std::string::npos);
    EXPECT_FALSE(received.read(std::span(sent.bytes).first(i))) << "cut to " << i;
  }
  auto longer = sent.bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(received.read(longer));
  EXPECT_FALSE(received.read(sent.bytes, {7, 4, 1})) << "another round";
  EXPECT_FALSE(received.read(sent.bytes, {8, 3, 1})) << "another run";
  EXPECT_FALSE(received.read(sent.bytes, {7, 3, 2})) << "another rank";
}

/// Makes the checksum right again, as a sender with a bug would.
void seal(std::vector<std::byte>& message) {
  const std::uint64_t checksum = XXH3_64bits(message.data(), message.size() - 8);
  std::memcpy(message.data() + message.size() - 8, &checksum, 8);
}

TEST(MpiMessages, nothing_hostile_crashes_or_is_half_understood) {
  EXPECT_TRUE(rc::check("changed or cut, with a good checksum", [](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const Sent sent = random_message(seed % 50, 300, 2, static_cast<std::uint32_t>(seed % 2), 3);
    auto bytes = sent.bytes;
    for (std::uint64_t i = random() % 4; i > 0; --i)
      bytes[24 + random() % (bytes.size() - 24)] = static_cast<std::byte>(random());
    if (random() % 3 == 0) bytes.resize(32 + random() % (bytes.size() - 32));
    seal(bytes);
    Received received(sent);
    if (!received.read(bytes)) {
      RC_ASSERT(!received.problem.empty());
      return;
    }
    // Whatever is taken for ballots is canonical: encoded again, it gives the same bytes.
    std::vector<mpi::EncodedSlice> slices(3);
    std::vector<mpi::SentBallot> parts(3);
    for (std::size_t m = 0; m < 3; ++m) {
      mpi::encode_slice(received.ballots[m].signs, slices[m]);
      parts[m] = {received.ballots[m].loss, received.ballots[m].present ? &slices[m] : nullptr};
    }
    std::vector<std::byte> again;
    mpi::encode_ballots(kId, received.word, parts, again);
    RC_ASSERT(again == bytes);
  }));
}

TEST(MpiMessages, verdicts_come_back_and_nothing_damaged_does) {
  std::mt19937_64 random(3);
  const SignVector whole = random_signs(500, 0.1, random);
  const mpi::Shard from = mpi::shard_of(500, 3, 1);
  mpi::EncodedSlice slice;
  mpi::encode_slice(mpi::slice(whole, from), slice);
  Traffic sent{4, 500, 2, 300, 1000};
  std::vector<std::byte> bytes;
  const std::vector<std::int64_t> pooled = {0, -7, std::int64_t{1} << 60};
  mpi::encode_verdict(kId, slice, pooled, 2, sent, bytes);
  EXPECT_LE(bytes.size(), mpi::most_verdict_bytes(from, pooled.size()));
  EXPECT_EQ(sent.rank_bytes, 1000 + 2 * bytes.size()) << "a message counts itself, as often as it is sent";
  SignVector verdict = whole;
  for (std::uint64_t i = from.begin; i < from.end; ++i) verdict.set(i, 0);
  Traffic traffic;
  std::string problem;
  std::vector<std::int64_t> got(pooled.size());
  const auto read = [&](std::span<const std::byte> message) {
    return mpi::decode_verdict(message, kId, from, verdict, got, traffic, problem);
  };
  ASSERT_TRUE(read(bytes)) << problem;
  EXPECT_EQ(verdict, whole);
  EXPECT_EQ(got, pooled);
  EXPECT_EQ(traffic, sent);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto flipped = bytes;
    flipped[i] ^= std::byte{0x20};
    EXPECT_FALSE(read(flipped)) << "byte " << i;
    EXPECT_FALSE(read(std::span(bytes).first(i)));
    EXPECT_EQ(mpi::slice(verdict, mpi::shard_of(500, 3, 0)), mpi::slice(whole, mpi::shard_of(500, 3, 0)));
  }
  std::vector<std::byte> ballots;
  mpi::encode_ballots(kId, {}, {}, ballots);
  EXPECT_FALSE(read(ballots)) << "of another kind";
  for (const std::size_t other : {0U, 2U, 4U}) {
    got.resize(other);
    EXPECT_FALSE(read(bytes)) << "pools " << other << " numbers";
  }
}

}  // namespace
}  // namespace signvote
