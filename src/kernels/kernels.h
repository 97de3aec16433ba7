// The inner loops, on raw memory: pack, vote, count, step. They are noexcept, allocate nothing and
// know nothing of workers' identities or rounds. All bit planes are as in signvote/sign_vector.h.
//
// Written once with Highway and compiled for every instruction set; the best one the machine has is
// picked at the first call. All give the same bits: tests/kernels/kernels_test.cpp holds each against
// plain twins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace signvote::kernels {

/// One ballot's two planes.
struct Planes {
  const std::uint64_t* present;
  const std::uint64_t* negative;
};

/// Packs n floats. Returns the first index that is NaN or infinite, or n; the planes are then
/// unspecified from that index's word on.
std::size_t pack(const float* values, std::size_t n, std::uint64_t* present,
                 std::uint64_t* negative) noexcept;
std::size_t pack(const double* values, std::size_t n, std::uint64_t* present,
                 std::uint64_t* negative) noexcept;
/// bfloat16, as its bits.
std::size_t pack(const std::uint16_t* values, std::size_t n, std::uint64_t* present,
                 std::uint64_t* negative) noexcept;

/// mixed = vote_beta * m + (1 - vote_beta) * g, and then m <- momentum_beta * m + (1 - momentum_beta) * g for
/// n coordinates. A momentum too small for a normal float32 becomes zero, because arithmetic on such numbers
/// is slow. REQUIRES: all numbers are finite; `mixed` is neither of the others.
void mix(const float* gradient, float* momentum, std::size_t n, float vote_beta, float momentum_beta,
         float* mixed) noexcept;

/// Everywhere x[i] -= decay * x[i]; then x[i] -= delta where the sign is plus, += delta where it is minus.
void step(float* x, std::size_t n, const std::uint64_t* present, const std::uint64_t* negative, float delta,
          float decay) noexcept;

/// Plain majority of the words [first, last): plus where more ballots say plus than minus, and so
/// on; a tie abstains.
void majority(std::span<const Planes> ballots, std::size_t first, std::size_t last, std::uint64_t* present,
              std::uint64_t* negative) noexcept;

/// One worker in a vote in which a worker's weight is the same at all coordinates.
struct FixedVoter {
  Planes ballot;
  std::int16_t weight;
};

/// For the words [first, last): U_n = sign(sum_m weight_m * Y_{m,n}), where a sum of zero abstains.
/// REQUIRES: the weights' magnitudes add up to at most 32,767.
void fixed_vote(std::span<const FixedVoter> voters, std::size_t first, std::size_t last,
                std::uint64_t* present, std::uint64_t* negative) noexcept;

/// Two ballots: on how many coordinates both have a sign, and the sum of Y_i * Y_j over them.
struct PairCount {
  std::int64_t both = 0;
  std::int64_t agreement = 0;

  bool operator==(const PairCount&) const = default;
};

/// Adds the words [first, last) to the count of each pair of ballots, that of ballots i > j at
/// i * (i - 1) / 2 + j.
void count_agreement(std::span<const Planes> ballots, std::size_t first, std::size_t last,
                     PairCount* counts) noexcept;

/// Half-error counts lie in blocks of 8 words, 64 counts for each word of a ballot, so that all workers'
/// blocks can be side by side: memory is then read in one stream. Those past the last coordinate count
/// along.
inline constexpr std::size_t kBlockWords = 8;
inline constexpr std::size_t kBlockCounts = kBlockWords * 64;

/// The counts of one worker: those of word w begin at block(w / 8) + w % 8 * 64.
struct Counts {
  std::uint16_t* first_block;
  std::size_t stride;  // from one block to the next

  std::uint16_t* block(std::size_t i) const { return first_block + i * stride; }
};

/// One worker in a weighted vote: its ballot, its half-error counts c, the half-errors that are added to each
/// of them (multiples of 1/128; see weight.h), and twice its rounds, with those that the prior stands for:
/// c + prior <= twice_rounds < 2^17, and twice_rounds > 0.
struct Voter {
  Planes ballot;
  Counts half_errors;
  float twice_rounds;
  float prior = 0;
};

/// For the words [first, last): U_n = sign(sum_m weight(c_{m,n}, prior_m, 2t_m, clip) * Y_{m,n}), with weight
/// as in weight.h, where a sum of zero abstains; then the count of half-errors, as below. In one pass: while
/// a block of counts is in the cache. REQUIRES: `first` begins a block.
void weighted_vote(std::span<const Voter> voters, std::int16_t clip, std::size_t first, std::size_t last,
                   std::uint64_t* present, std::uint64_t* negative, std::int64_t* new_half_errors) noexcept;

/// c_{m,n} += 1 - Y_{m,n} * U_n for the words [first, last): agreement 0, an abstention on either side 1,
/// contradiction 2. Their sum over n, with those past the last coordinate, which count 1 each, is added to
/// new_half_errors[m]. Fastest where the voters' blocks follow each other in memory.
/// REQUIRES: `first` begins a block.
void count_half_errors(std::span<const Voter> voters, const Planes& verdict, std::size_t first,
                       std::size_t last, std::int64_t* new_half_errors) noexcept;

/// The instruction sets that this machine can run, best first; and the use of one of them, or of the
/// best again (""), from then on in all threads. For tests and benchmarks.
std::vector<std::string> targets();
void use_target(const std::string& name);

}  // namespace signvote::kernels
