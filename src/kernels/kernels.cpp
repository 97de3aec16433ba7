#include "kernels/kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <limits>

#include "kernels/weight.h"

namespace signvote::kernels {
namespace {

constexpr std::size_t kBits = 64;

/// Signs from bit patterns: exact for every float, whatever the compiler's floating-point flags.
template <class Bits>
std::size_t pack_bits(const auto* values, std::size_t n, Bits infinity, std::uint64_t* present,
                      std::uint64_t* negative) noexcept {
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max() >> 1;
  for (std::size_t word = 0; word * kBits < n; ++word) {
    const std::size_t begin = word * kBits;
    const std::size_t count = std::min(kBits, n - begin);
    std::uint64_t p = 0;
    std::uint64_t m = 0;
    bool bad = false;
    for (std::size_t j = 0; j < count; ++j) {
      const Bits bits = std::bit_cast<Bits>(values[begin + j]);
      const Bits magnitude = bits & kMagnitude;
      p |= std::uint64_t{magnitude != 0} << j;
      m |= std::uint64_t{bits > kMagnitude && magnitude != 0} << j;
      bad |= magnitude >= infinity;
    }
    if (bad) {
      for (std::size_t j = 0;; ++j)
        if ((std::bit_cast<Bits>(values[begin + j]) & kMagnitude) >= infinity) return begin + j;
    }
    present[word] = p;
    negative[word] = m;
  }
  return n;
}

/// log_units of all counts: the part in use is small while there are few rounds, and stays in cache.
const auto kLogTable = [] {
  std::array<std::int16_t, 65536> table{};
  for (std::size_t x = 0; x < table.size(); ++x) table[x] = log_units(static_cast<std::uint16_t>(x));
  return table;
}();

/// Y of bit j: -1, 0 or +1.
int sign_at(std::uint64_t present, std::uint64_t negative, std::size_t j) {
  return static_cast<int>(present >> j & 1) - 2 * static_cast<int>(negative >> j & 1);
}

}  // namespace

std::size_t pack(const float* values, std::size_t n, std::uint64_t* present,
                 std::uint64_t* negative) noexcept {
  return pack_bits<std::uint32_t>(values, n, 0x7f800000U, present, negative);
}

std::size_t pack(const double* values, std::size_t n, std::uint64_t* present,
                 std::uint64_t* negative) noexcept {
  return pack_bits<std::uint64_t>(values, n, 0x7ff0000000000000U, present, negative);
}

std::size_t pack(const std::uint16_t* values, std::size_t n, std::uint64_t* present,
                 std::uint64_t* negative) noexcept {
  return pack_bits<std::uint16_t>(values, n, 0x7f80U, present, negative);
}

void step(float* x, std::size_t n, const std::uint64_t* present, const std::uint64_t* negative,
          float delta) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t p = present[i / kBits] >> (i % kBits) & 1;
    const std::uint64_t m = negative[i / kBits] >> (i % kBits) & 1;
    if (p != 0) x[i] -= m != 0 ? -delta : delta;
  }
}

void majority(std::span<const Planes> ballots, std::size_t first, std::size_t last, std::uint64_t* present,
              std::uint64_t* negative) noexcept {
  const auto planes = static_cast<std::size_t>(std::bit_width(ballots.size()));
  for (std::size_t word = first; word < last; ++word) {
    std::array<std::uint64_t, 64> plus{};
    std::array<std::uint64_t, 64> minus{};
    const auto add = [planes](std::array<std::uint64_t, 64>& count, std::uint64_t carry) {
      for (std::size_t k = 0; k < planes; ++k) {
        const std::uint64_t sum = count[k] ^ carry;
        carry &= count[k];
        count[k] = sum;
      }
    };
    for (const Planes& ballot : ballots) {
      add(plus, ballot.present[word] & ~ballot.negative[word]);
      add(minus, ballot.negative[word]);
    }
    // Compare the two counts from their highest bit down; what is decided stays decided.
    std::uint64_t more_plus = 0;
    std::uint64_t more_minus = 0;
    for (std::size_t k = planes; k-- > 0;) {
      const std::uint64_t undecided = ~(more_plus | more_minus);
      more_plus |= undecided & plus[k] & ~minus[k];
      more_minus |= undecided & minus[k] & ~plus[k];
    }
    present[word] = more_plus | more_minus;
    negative[word] = more_minus;
  }
}

void weighted_vote(std::span<const WeightedBallot> ballots, std::int16_t clip, std::size_t n,
                   std::size_t first, std::size_t last, std::uint64_t* present,
                   std::uint64_t* negative) noexcept {
  for (std::size_t word = first; word < last; ++word) {
    const std::size_t begin = word * kBits;
    const std::size_t count = std::min(kBits, n - begin);
    std::array<std::int32_t, kBits> sums{};
    for (const WeightedBallot& worker : ballots) {
      const std::uint64_t p = worker.ballot.present[word];
      const std::uint64_t m = worker.ballot.negative[word];
      const std::uint16_t* half_errors = worker.half_errors + begin;
      for (std::size_t j = 0; j < count; ++j) {
        const int units = kLogTable[2 * worker.rounds - half_errors[j]] - kLogTable[half_errors[j]];
        sums[j] += sign_at(p, m, j) * std::clamp<int>(units, -clip, clip);
      }
    }
    std::uint64_t p = 0;
    std::uint64_t m = 0;
    for (std::size_t j = 0; j < count; ++j) {
      p |= std::uint64_t{sums[j] != 0} << j;
      m |= std::uint64_t{sums[j] < 0} << j;
    }
    present[word] = p;
    negative[word] = m;
  }
}

void count_half_errors(const Planes& ballot, const Planes& verdict, std::size_t n, std::size_t first,
                       std::size_t last, std::uint16_t* half_errors) noexcept {
  for (std::size_t word = first; word < last; ++word) {
    const std::size_t begin = word * kBits;
    const std::size_t count = std::min(kBits, n - begin);
    const std::uint64_t both = ballot.present[word] & verdict.present[word];
    const std::uint64_t wrong = both & (ballot.negative[word] ^ verdict.negative[word]);
    for (std::size_t j = 0; j < count; ++j)
      half_errors[begin + j] += static_cast<std::uint16_t>(1 - (both >> j & 1) + 2 * (wrong >> j & 1));
  }
}

}  // namespace signvote::kernels
