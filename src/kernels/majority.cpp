// The plain majority, on packed bits: 64 coordinates to a word, counted by adders of bits.
#include <algorithm>
#include <array>
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

constexpr std::size_t kLine = 8;    // words of a cache line
constexpr std::size_t kTile = 128;  // words; their counters fit the first-level cache
constexpr std::size_t kGroup = 4;   // ballots, whose eight planes are read at once

/// a + b + c = sum + 2 * (what is returned), bit by bit.
template <class V>
HWY_INLINE V full_add(V a, V b, V c, V& sum) {
  const V differ = hn::Xor(b, c);
  const V carry = hn::OrAnd(hn::And(b, c), differ, a);
  sum = hn::Xor(a, differ);
  return carry;
}

/// Adds kBits bits to a counter's plane. Their carries, half as many, replace them.
template <std::size_t kBits, class V>
HWY_INLINE void add_bits(V& plane, V* bits) {
  for (std::size_t i = 0; i < kBits / 2; ++i) bits[i] = full_add(plane, bits[2 * i], bits[2 * i + 1], plane);
  if (kBits % 2 == 0) return;
  const V last = bits[kBits - 1];
  bits[kBits / 2] = hn::And(plane, last);
  plane = hn::Xor(plane, last);
}

/// The majority on a tile of words. Plane k holds bit k of a counter for each coordinate. It starts at
/// 2^(kPlanes - 1) less the number of ballots; a plus adds 0, an abstention 1 and a minus 2. In the end its
/// highest bit is set and no other where the vote is tied, some other too where minus has more votes, and
/// the highest bit is not set where plus has.
///
/// A processor cannot follow as many streams of memory as there are planes. So the ballots are added in
/// groups: a tile of each plane of a group is read while the next group's is fetched.
template <std::size_t kPlanes>
class Tile {
 public:
  Tile(std::span<const Planes> ballots, std::uint64_t* present, std::uint64_t* negative)
      : ballots_(ballots), present_(present), negative_(negative) {}

  /// REQUIRES: at most kTile words, a multiple of D's lanes.
  template <class D>
  HWY_INLINE void decide(D d, std::size_t word, std::size_t words) {
    std::size_t b = 0;
    for (; b + kGroup <= ballots_.size(); b += kGroup) add_group<true>(d, b, word, words);
    if (b < ballots_.size() || b == 0) add_group<false>(d, b, word, words);
  }

 private:
  /// Adds the ballots from `b` on. What a group that is not whole lacks counts as abstentions.
  template <bool kWhole, class D>
  HWY_INLINE void add_group(D d, std::size_t b, std::size_t word, std::size_t words) {
    using V = hn::Vec<D>;
    const std::size_t lanes = hn::Lanes(d);
    const bool first = b == 0;
    const bool last = b + kGroup >= ballots_.size();
    const std::size_t groups = std::max<std::size_t>(1, (ballots_.size() + kGroup - 1) / kGroup);
    const std::size_t start = (std::size_t{1} << (kPlanes - 1)) - groups * kGroup;
    const auto group = ballots_.subspan(b, kWhole ? kGroup : ballots_.size() - b);
    const auto next = last ? ballots_ : ballots_.subspan(b + kGroup);
    const std::size_t next_word = last ? word + kTile : word;
    const std::size_t fetched = std::min(kGroup, next.size());
    for (std::size_t w = 0; w < words; w += lanes) {
      for (std::size_t i = 0; w % kLine == 0 && i < fetched; ++i) {  // past the end, this does nothing
        hwy::Prefetch(next[i].present + next_word + w);
        hwy::Prefetch(next[i].negative + next_word + w);
      }
      const auto bits_of = [&](const std::uint64_t* Planes::*plane, std::size_t i) HWY_ATTR {
        return kWhole || i < group.size() ? hn::LoadU(d, group[i].*plane + word + w) : hn::Zero(d);
      };
      std::uint64_t* counts = counts_.data() + w * kPlanes;
      V plane[kPlanes];  // no std::array, whose functions are compiled for no target
      V bits[kGroup + kGroup / 2];
      for (std::size_t k = 0; k < kPlanes; ++k)
        plane[k] = first ? hn::Set(d, std::uint64_t{0} - (start >> k & 1)) : hn::Load(d, counts + k * lanes);
      for (std::size_t i = 0; i < kGroup; ++i) bits[i] = hn::Not(bits_of(&Planes::present, i));
      add_bits<kGroup>(plane[0], bits);
      for (std::size_t i = 0; i < kGroup; ++i) bits[kGroup / 2 + i] = bits_of(&Planes::negative, i);
      add_bits<kGroup + kGroup / 2>(plane[1], bits);
      add_bits<3>(plane[2], bits);
      add_bits<2>(plane[3], bits);
      for (std::size_t k = 4; k < kPlanes; ++k) add_bits<1>(plane[k], bits);
      if (last)
        write(d, plane, word + w);
      else
        for (std::size_t k = 0; k < kPlanes; ++k) hn::Store(plane[k], d, counts + k * lanes);
    }
  }

  template <class D>
  HWY_INLINE void write(D d, const hn::Vec<D>* plane, std::size_t word) {
    const hn::Vec<D> high = plane[kPlanes - 1];
    hn::Vec<D> low = plane[0];
    for (std::size_t k = 1; k + 1 < kPlanes; ++k) low = hn::Or(low, plane[k]);
    hn::StoreU(hn::Or(low, hn::Not(high)), d, present_ + word);
    hn::StoreU(hn::And(low, high), d, negative_ + word);
  }

  std::span<const Planes> ballots_;
  std::uint64_t* present_;
  std::uint64_t* negative_;
  HWY_ALIGN std::array<std::uint64_t, kTile * kPlanes> counts_;  // all planes of a vector side by side
};

template <std::size_t kPlanes>
void majority_of(std::span<const Planes> ballots, std::size_t first, std::size_t last, std::uint64_t* present,
                 std::uint64_t* negative) {
  const hn::ScalableTag<std::uint64_t> d;
  Tile<kPlanes> tile(ballots, present, negative);
  for (std::size_t word = first; word < last; word += kTile) {
    const std::size_t words = std::min(kTile, last - word);
    const std::size_t in_vectors = words / hn::Lanes(d) * hn::Lanes(d);
    tile.decide(d, word, in_vectors);
    if (in_vectors < words)
      tile.decide(hn::CappedTag<std::uint64_t, 1>(), word + in_vectors, words - in_vectors);
  }
}

/// The planes are as many as the counters need, known to the compiler, to be kept in registers.
void majority_all(std::span<const Planes> ballots, std::size_t first, std::size_t last,
                  std::uint64_t* present, std::uint64_t* negative) {
  const int bits = std::bit_width(ballots.size());
  const auto majority = bits <= 3   ? majority_of<4>
                        : bits == 4 ? majority_of<5>
                        : bits <= 7 ? majority_of<8>
                        : bits <= 9 ? majority_of<10>
                                    : majority_of<33>;
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
