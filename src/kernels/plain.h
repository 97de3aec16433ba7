// The kernels' plain twins: the same results, one coordinate after the other. They are what runs on a
// machine without vectors (or with none that highway.h names), and what the vectors are measured by.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "kernels/kernels.h"
#include "kernels/weight.h"

namespace signvote::kernels::plain {

constexpr std::size_t kBits = 64;  // of a word

/// Y of coordinate i: -1, 0 or +1.
inline int sign_at(const Planes& planes, std::size_t i) {
  const auto bit = [i](const std::uint64_t* plane) {
    return static_cast<int>(plane[i / kBits] >> (i % kBits) & 1);
  };
  return bit(planes.present) - 2 * bit(planes.negative);
}

template <class Bits>
std::size_t pack_bits(const Bits* values, std::size_t n, Bits infinity, std::uint64_t* present,
                      std::uint64_t* negative) {
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max() >> 1;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t& p = present[i / kBits];
    std::uint64_t& m = negative[i / kBits];
    if (i % kBits == 0) p = m = 0;
    const Bits magnitude = values[i] & kMagnitude;
    if (magnitude >= infinity) return i;
    p |= std::uint64_t{magnitude != 0} << (i % kBits);
    m |= std::uint64_t{magnitude != 0 && values[i] > kMagnitude} << (i % kBits);
  }
  return n;
}

inline void mix_all(const float* gradient, float* momentum, std::size_t n, float vote_beta,
                    float momentum_beta, float* mixed) {
  const auto mean = [](float m, float g, float beta) { return beta * m + (1.0F - beta) * g; };
  for (std::size_t i = 0; i < n; ++i) {
    mixed[i] = mean(momentum[i], gradient[i], vote_beta);
    const float next = mean(momentum[i], gradient[i], momentum_beta);
    momentum[i] = std::abs(next) >= std::numeric_limits<float>::min() ? next : 0.0F;
  }
}

inline void step_all(float* x, std::size_t n, const std::uint64_t* present, const std::uint64_t* negative,
                     float delta, float decay) {
  for (std::size_t i = 0; i < n; ++i) {
    if (decay != 0) x[i] -= decay * x[i];
    const int sign = sign_at({present, negative}, i);
    if (sign != 0) x[i] -= sign < 0 ? -delta : delta;
  }
}

/// Puts sign(sums[j]) at bit j of a word of the verdict.
template <class Sums>
void decide_word(const Sums& sums, std::uint64_t& present, std::uint64_t& negative) {
  present = negative = 0;
  for (std::size_t j = 0; j < kBits; ++j) {
    present |= std::uint64_t{sums[j] != 0} << j;
    negative |= std::uint64_t{sums[j] < 0} << j;
  }
}

inline void majority_all(std::span<const Planes> ballots, std::size_t first, std::size_t last,
                         std::uint64_t* present, std::uint64_t* negative) {
  for (std::size_t word = first; word < last; ++word) {
    std::array<std::int64_t, kBits> sums{};
    for (const Planes& ballot : ballots)
      for (std::size_t j = 0; j < kBits; ++j) sums[j] += sign_at(ballot, word * kBits + j);
    decide_word(sums, present[word], negative[word]);
  }
}

inline void agreement_all(std::span<const Planes> ballots, std::size_t first, std::size_t last,
                          PairCount* counts) {
  for (std::size_t i = 1; i < ballots.size(); ++i)
    for (std::size_t j = 0; j < i; ++j, ++counts)
      for (std::size_t word = first; word < last; ++word) {
        const std::uint64_t both = ballots[i].present[word] & ballots[j].present[word];
        const std::uint64_t differ = both & (ballots[i].negative[word] ^ ballots[j].negative[word]);
        counts->both += std::popcount(both);
        counts->agreement += std::popcount(both) - 2 * std::popcount(differ);
      }
}

inline void fixed_vote_all(std::span<const FixedVoter> voters, std::size_t first, std::size_t last,
                           std::uint64_t* present, std::uint64_t* negative) {
  for (std::size_t word = first; word < last; ++word) {
    std::array<std::int64_t, kBits> sums{};
    for (const FixedVoter& voter : voters)
      for (std::size_t j = 0; j < kBits; ++j)
        sums[j] += sign_at(voter.ballot, word * kBits + j) * voter.weight;
    decide_word(sums, present[word], negative[word]);
  }
}

inline std::uint16_t& count_at(const Counts& counts, std::size_t i) {
  return counts.block(i / kBlockCounts)[i % kBlockCounts];
}

inline void count_all(std::span<const Voter> voters, const Planes& verdict, std::size_t first,
                      std::size_t last, std::int64_t* new_half_errors) {
  for (std::size_t m = 0; m < voters.size(); ++m)
    for (std::size_t i = first * kBits; i < last * kBits; ++i) {
      const int more = 1 - sign_at(voters[m].ballot, i) * sign_at(verdict, i);
      std::uint16_t& count = count_at(voters[m].half_errors, i);
      count = static_cast<std::uint16_t>(count + more);
      new_half_errors[m] += more;
    }
}

inline void vote_all(std::span<const Voter> voters, std::int16_t clip, std::size_t first, std::size_t last,
                     std::uint64_t* present, std::uint64_t* negative, std::int64_t* new_half_errors) {
  for (std::size_t word = first; word < last; ++word) {
    std::array<std::int64_t, kBits> sums{};
    for (const Voter& voter : voters)
      for (std::size_t j = 0; j < kBits; ++j) {
        const std::size_t i = word * kBits + j;
        sums[j] += sign_at(voter.ballot, i) *
                   weight(count_at(voter.half_errors, i), voter.prior, voter.twice_rounds, clip);
      }
    decide_word(sums, present[word], negative[word]);
  }
  count_all(voters, {present, negative}, first, last, new_half_errors);
}

}  // namespace signvote::kernels::plain
