// The plain majority, on packed bits: 64 coordinates to a word, counted by adders of bits.
#include <algorithm>
#include <bit>

#include "kernels/kernels.h"
#include "kernels/plain.h"

// This file is compiled once for each target: everything up to HWY_ONCE.
#define HWY_TARGET_INCLUDE "kernels/majority.cpp"
#include "kernels/highway.h"

HWY_BEFORE_NAMESPACE();
namespace signvote::kernels::HWY_NAMESPACE {

#if SIGNVOTE_PLAIN_TARGET

using plain::majority_all;

#else

namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kBits = 64;  // of a word

/// a + b + c = low + 2 * (what is returned), bit by bit.
template <class V>
HWY_INLINE V full_add(V a, V b, V c, V& low) {
  const V differ = hn::Xor(a, b);
  low = hn::Xor(differ, c);
  return hn::Or(hn::And(a, b), hn::And(differ, c));
}

/// Counts of as many coordinates as V has bits, up to 2^kPlanes - 1: plane k holds bit k of each count.
template <class V, std::size_t kPlanes>
struct BitSlicedCounts {
  V plane[kPlanes];  // no std::array, whose functions are compiled for no target; nor is an implicit
                     // constructor

  explicit HWY_INLINE HWY_ATTR BitSlicedCounts(V zero) {
    for (V& bits : plane) bits = zero;
  }

  /// Adds `carry` from plane k on.
  HWY_INLINE void ripple(V carry, std::size_t k) {
    for (; k < kPlanes; ++k) {
      const V sum = hn::Xor(plane[k], carry);
      carry = hn::And(plane[k], carry);
      plane[k] = sum;
    }
  }
  HWY_INLINE void add2(V a, V b) { ripple(full_add(plane[0], a, b, plane[0]), 1); }
  /// Eight bits in(0) to in(7), by seven adders.
  HWY_INLINE void add8(const auto& in) {
    const V twos_a = full_add(plane[0], in(0), in(1), plane[0]);
    const V twos_b = full_add(plane[0], in(2), in(3), plane[0]);
    const V fours_a = full_add(plane[1], twos_a, twos_b, plane[1]);
    const V twos_c = full_add(plane[0], in(4), in(5), plane[0]);
    const V twos_d = full_add(plane[0], in(6), in(7), plane[0]);
    const V fours_b = full_add(plane[1], twos_c, twos_d, plane[1]);
    ripple(full_add(plane[2], fours_a, fours_b, plane[2]), 3);
  }
};

/// How many of the ballots have their bit set in `plane`, in as many words as D has lanes.
template <std::size_t kPlanes, class D>
HWY_INLINE BitSlicedCounts<hn::Vec<D>, kPlanes> count_bits(D d, std::span<const Planes> ballots,
                                                           const std::uint64_t* Planes::*plane,
                                                           std::size_t word) {
  BitSlicedCounts<hn::Vec<D>, kPlanes> counts(hn::Zero(d));
  const auto bits = [&](std::size_t b) HWY_ATTR { return hn::LoadU(d, ballots[b].*plane + word); };
  std::size_t b = 0;
  for (; b + 8 <= ballots.size(); b += 8) counts.add8([&](std::size_t i) HWY_ATTR { return bits(b + i); });
  for (; b + 2 <= ballots.size(); b += 2) counts.add2(bits(b), bits(b + 1));
  if (b < ballots.size()) counts.ripple(bits(b), 0);
  return counts;
}

/// The verdict is minus where the negative are more than half of the present, plus where they are less.
template <std::size_t kPlanes, class D>
HWY_INLINE void majority_at(D d, std::span<const Planes> ballots, std::size_t word, std::uint64_t* present,
                            std::uint64_t* negative) {
  using V = hn::Vec<D>;
  const auto minus = count_bits<kPlanes>(d, ballots, &Planes::negative, word);
  const auto all = count_bits<kPlanes>(d, ballots, &Planes::present, word);
  // Twice the negative against the present, from the highest bit down; what is decided stays decided.
  V more_minus = minus.plane[kPlanes - 1];
  V more_plus = hn::Zero(d);
  for (std::size_t k = kPlanes; k-- > 0;) {
    const V twice_minus = k == 0 ? hn::Zero(d) : minus.plane[k - 1];
    more_plus = hn::Or(more_plus, hn::AndNot(hn::Or(more_minus, twice_minus), all.plane[k]));
    more_minus = hn::Or(more_minus, hn::AndNot(hn::Or(more_plus, all.plane[k]), twice_minus));
  }
  hn::StoreU(hn::Or(more_plus, more_minus), d, present + word);
  hn::StoreU(more_minus, d, negative + word);
}

template <std::size_t kPlanes>
void majority_of(std::span<const Planes> ballots, std::size_t first, std::size_t last, std::uint64_t* present,
                 std::uint64_t* negative) {
  const hn::ScalableTag<std::uint64_t> d;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  constexpr std::size_t kLine = 8;
  std::size_t word = first;
  for (; word + kLine <= last; word += kLine) {
    // There are too many streams for the hardware to follow. Past the end, a prefetch does nothing.
    for (const Planes& ballot : ballots) {
      hwy::Prefetch(ballot.present + word + 4 * kLine);
      hwy::Prefetch(ballot.negative + word + 4 * kLine);
    }
    for (std::size_t w = 0; w < kLine; w += kLanes)
      majority_at<kPlanes>(d, ballots, word + w, present, negative);
  }
  for (; word < last; ++word)
    majority_at<kPlanes>(hn::CappedTag<std::uint64_t, 1>(), ballots, word, present, negative);
}

/// The planes are as many as the counts need, known to the compiler, to be kept in registers.
void majority_all(std::span<const Planes> ballots, std::size_t first, std::size_t last,
                  std::uint64_t* present, std::uint64_t* negative) {
  const std::size_t ballots_bits = static_cast<std::size_t>(std::bit_width(ballots.size()));
  const auto majority = ballots_bits <= 3   ? majority_of<3>
                        : ballots_bits == 4 ? majority_of<4>
                        : ballots_bits == 5 ? majority_of<5>
                        : ballots_bits <= 8 ? majority_of<8>
                                            : majority_of<32>;
  majority(ballots, first, last, present, negative);
}

}  // namespace

#endif

}  // namespace signvote::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace signvote::kernels {

HWY_EXPORT(majority_all);

void majority(std::span<const Planes> ballots, std::size_t first, std::size_t last, std::uint64_t* present,
              std::uint64_t* negative) noexcept {
  HWY_DYNAMIC_DISPATCH(majority_all)(ballots, first, last, present, negative);
}

}  // namespace signvote::kernels
#endif  // HWY_ONCE
