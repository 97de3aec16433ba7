// The inner loops, on raw memory: pack, vote, count, step. They are noexcept, allocate nothing and
// know nothing of workers' identities or rounds. All bit planes are as in signvote/sign_vector.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

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

/// x[i] -= delta where the sign is plus, += delta where it is minus.
void step(float* x, std::size_t n, const std::uint64_t* present, const std::uint64_t* negative,
          float delta) noexcept;

/// Plain majority of the words [first, last): plus where more ballots say plus than minus, and so
/// on; a tie abstains. Counts are bit-sliced: plane k holds bit k of 64 coordinates' counts.
void majority(std::span<const Planes> ballots, std::size_t first, std::size_t last, std::uint64_t* present,
              std::uint64_t* negative) noexcept;

/// One worker in a weighted vote: its ballot, its row of half-error counts c, and its rounds t.
struct WeightedBallot {
  Planes ballot;
  const std::uint16_t* half_errors;
  std::uint32_t rounds;
};

/// U_n = sign(sum_m weight(c_{m,n}, t_m, clip) * Y_{m,n}) for the words [first, last) of n coordinates,
/// with weight as in weight.h; a sum of zero abstains.
void weighted_vote(std::span<const WeightedBallot> ballots, std::int16_t clip, std::size_t n,
                   std::size_t first, std::size_t last, std::uint64_t* present,
                   std::uint64_t* negative) noexcept;

/// c_n += 1 - Y_n * U_n for the words [first, last): agreement 0, an abstention on either side 1,
/// contradiction 2.
void count_half_errors(const Planes& ballot, const Planes& verdict, std::size_t n, std::size_t first,
                       std::size_t last, std::uint16_t* half_errors) noexcept;

}  // namespace signvote::kernels
