#include "kernels/kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/plain.h"
#include "kernels/weight.h"

// Vectors whose length is known only at run time cannot be kept in arrays; ARM has NEON beside them.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

// This file is compiled once for each target: everything up to HWY_ONCE.
#define HWY_TARGET_INCLUDE "kernels/kernels.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

static_assert(std::endian::native == std::endian::little, "a plane's bytes are in the order of its bits");

HWY_BEFORE_NAMESPACE();
namespace signvote::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

using plain::count_all;
using plain::majority_all;
using plain::pack_bits;
using plain::step_all;
using plain::vote_all;

#else

namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kBits = 64;  // of a word

// --- pack ---

/// Signs from bit patterns, exact for every float. Bits are numbers of `infinity` and above where the
/// float is infinite or NaN.
template <class Bits>
std::size_t pack_bits(const Bits* HWY_RESTRICT values, std::size_t n, Bits infinity,
                      std::uint64_t* HWY_RESTRICT present, std::uint64_t* HWY_RESTRICT negative) {
  const hn::ScalableTag<Bits> d;
  const hn::RebindToSigned<decltype(d)> di;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  static_assert(kBits % kLanes == 0);
  const auto zero = hn::Zero(d);

  // A NaN is rare: whether there was one is asked once in many words, and where it is only then.
  constexpr std::size_t kStretch = 64 * kBits;
  for (std::size_t begin = 0; begin < n; begin += kStretch) {
    const std::size_t end = std::min(n, begin + kStretch);
    auto largest = zero;  // of the magnitudes, doubled to lose the sign
    for (std::size_t i = begin; i < end; i += kBits) {
      HWY_ALIGN std::array<Bits, kBits> tail;
      const Bits* from = values + i;
      if (end - i < kBits) {
        tail.fill(0);
        std::copy(from, values + end, tail.data());
        from = tail.data();
      }
      std::array<std::uint8_t, 16> p;  // as StoreMaskBits may write eight bytes, wherever it starts
      std::array<std::uint8_t, 16> m;
      for (std::size_t j = 0; j < kBits; j += kLanes) {
        const auto v = hn::LoadU(d, from + j);
        const auto doubled = hn::Add(v, v);
        largest = hn::Max(largest, doubled);
        const auto abstains = hn::Eq(doubled, zero);
        const auto minus = hn::RebindMask(d, hn::Lt(hn::BitCast(di, v), hn::Zero(di)));
        if constexpr (kLanes >= 8) {
          hn::StoreMaskBits(d, hn::Not(abstains), p.data() + j / 8);
          hn::StoreMaskBits(d, hn::AndNot(abstains, minus), m.data() + j / 8);
        } else {  // less than a byte
          std::array<std::uint8_t, 8> bits{};
          hn::StoreMaskBits(d, hn::Not(abstains), bits.data());
          p[j / 8] = static_cast<std::uint8_t>(j % 8 == 0 ? bits[0] : p[j / 8] | bits[0] << (j % 8));
          hn::StoreMaskBits(d, hn::AndNot(abstains, minus), bits.data());
          m[j / 8] = static_cast<std::uint8_t>(j % 8 == 0 ? bits[0] : m[j / 8] | bits[0] << (j % 8));
        }
      }
      std::memcpy(present + i / kBits, p.data(), 8);
      std::memcpy(negative + i / kBits, m.data(), 8);
    }
    const Bits limit = static_cast<Bits>(2 * infinity);
    HWY_ALIGN std::array<Bits, kLanes> lanes;
    hn::Store(largest, d, lanes.data());
    if (std::ranges::max(lanes) >= limit)
      return static_cast<std::size_t>(
          std::find_if(values + begin, values + end,
                       [limit](Bits bits) { return static_cast<Bits>(2 * bits) >= limit; }) -
          values);
  }
  return n;
}

// --- step ---

/// 64 parameters, by one word of each plane.
void step_word(float* HWY_RESTRICT x, std::uint64_t present, std::uint64_t negative, float delta) {
  const hn::ScalableTag<float> df;
  const hn::ScalableTag<std::uint32_t> du;
  constexpr std::size_t kLanes = hn::MaxLanes(df);
  const auto forward = hn::BitCast(du, hn::Set(df, delta));
  const auto sign_bit = hn::Set(du, 0x8000'0000);
  const auto first_bits = hn::Shl(hn::Set(du, 1), hn::Iota(du, 0));
  for (std::size_t half = 0; half < 2; ++half) {
    const auto p = hn::Set(du, static_cast<std::uint32_t>(present >> (32 * half)));
    const auto m = hn::Set(du, static_cast<std::uint32_t>(negative >> (32 * half)));
    auto bits = first_bits;
    for (std::size_t j = 0; j < 32; j += kLanes, bits = hn::ShiftLeft<kLanes>(bits)) {
      const auto back = hn::IfThenElseZero(hn::TestBit(m, bits), sign_bit);
      const auto before = hn::LoadU(df, x + 32 * half + j);
      const auto after = hn::Sub(before, hn::BitCast(df, hn::Xor(forward, back)));
      const auto moves = hn::RebindMask(df, hn::TestBit(p, bits));
      hn::StoreU(hn::IfThenElse(moves, after, before), df, x + 32 * half + j);
    }
  }
}

void step_all(float* HWY_RESTRICT x, std::size_t n, const std::uint64_t* HWY_RESTRICT present,
              const std::uint64_t* HWY_RESTRICT negative, float delta) {
  const std::size_t words = n / kBits;
  for (std::size_t word = 0; word < words; ++word)
    step_word(x + word * kBits, present[word], negative[word], delta);
  if (n % kBits != 0) {
    std::array<float, kBits> tail{};
    std::copy(x + words * kBits, x + n, tail.data());
    step_word(tail.data(), present[words], negative[words], delta);
    std::copy_n(tail.data(), n % kBits, x + words * kBits);
  }
}

// --- majority ---

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

// --- the weighted vote, and the count ---

using I8 = hn::ScalableTag<std::int8_t>;
using I16 = hn::ScalableTag<std::int16_t>;
using V8 = hn::Vec<I8>;
using V16 = hn::Vec<I16>;

constexpr std::size_t kLanes = hn::MaxLanes(I16());  // counts in a vector
constexpr std::size_t kChunk = 2 * kLanes;           // signs in a vector of bytes
constexpr std::size_t kChunks = kBits / kChunk;      // in a word
constexpr std::size_t kBlockChunks = kBlockWords * kChunks;
constexpr std::size_t kKeptVoters = 64;  // whose signs are kept from the vote for the count
static_assert(kChunk <= kBits);

/// From bits to bytes, one per sign, and from bytes to sixteen-bit lanes. The bytes of a chunk are in
/// the order 0, L, 1, L + 1, 2, ... where L = kLanes, so that the low and the high bytes of the
/// sixteen-bit lanes are the signs of its first and second vector of counts.
class Signs {
 public:
  Signs() {
    HWY_ALIGN std::array<std::uint8_t, kChunk> byte;
    HWY_ALIGN std::array<std::uint8_t, kChunk> bit;
    for (std::size_t i = 0; i < kChunk; ++i) {
      const std::size_t sign = i % 2 * kLanes + i / 2;
      byte[i] = static_cast<std::uint8_t>(sign / 8);
      bit[i] = static_cast<std::uint8_t>(1U << (sign % 8));
    }
    byte_ = hn::Load(u8_, byte.data());
    bit_ = hn::Load(u8_, bit.data());
  }

  /// -1, 0, +1.
  HWY_INLINE V8 at(const Planes& planes, std::size_t chunk) const {
    const auto negative = hn::VecFromMask(u8_, hn::Eq(own_bits(planes.negative, chunk), bit_));
    const auto present = hn::Min(own_bits(planes.present, chunk), hn::Set(u8_, 1));
    return hn::BitCast(I8(), hn::Or(negative, present));
  }

 private:
  using Chunk = std::conditional_t<kChunk == 16, std::uint16_t,
                                   std::conditional_t<kChunk == 32, std::uint32_t, std::uint64_t>>;
  using VU8 = hn::Vec<hn::ScalableTag<std::uint8_t>>;

  /// In each byte its own sign's bit, and no other.
  HWY_INLINE VU8 own_bits(const std::uint64_t* plane, std::size_t chunk) const {
    Chunk bits;
    std::memcpy(&bits, reinterpret_cast<const std::uint8_t*>(plane) + chunk * sizeof bits, sizeof bits);
    const auto everywhere = hn::BitCast(u8_, hn::Set(hn::ScalableTag<Chunk>(), bits));
    return hn::And(hn::TableLookupBytes(everywhere, byte_), bit_);
  }

  static constexpr hn::ScalableTag<std::uint8_t> u8_{};
  VU8 byte_;
  VU8 bit_;
};

HWY_INLINE V16 first_signs(V8 signs) {
  return hn::ShiftRight<8>(hn::ShiftLeft<8>(hn::BitCast(I16(), signs)));
}
HWY_INLINE V16 second_signs(V8 signs) { return hn::ShiftRight<8>(hn::BitCast(I16(), signs)); }

/// As weight() of weight.h, lane by lane.
HWY_INLINE V16 weights(V16 half_errors, hn::Vec<hn::ScalableTag<float>> twice_rounds, V16 least, V16 most) {
  const I16 d;
  const hn::ScalableTag<std::int32_t> d32;
  const hn::ScalableTag<std::uint32_t> u32;
  const hn::ScalableTag<float> f32;
  const auto counts = hn::BitCast(u32, half_errors);
  const auto even = hn::ConvertTo(f32, hn::BitCast(d32, hn::And(counts, hn::Set(u32, 0xffff))));
  const auto odd = hn::ConvertTo(f32, hn::BitCast(d32, hn::ShiftRight<16>(counts)));
  const auto float_bits = [&](auto e, auto o) HWY_ATTR {
    return hn::OddEven(hn::BitCast(d, o), hn::BitCast(d, hn::ShiftRight<16>(hn::BitCast(u32, e))));
  };
  const V16 wrong = float_bits(even, odd);
  const V16 right = float_bits(hn::Sub(twice_rounds, even), hn::Sub(twice_rounds, odd));
  const V16 w = hn::And(wrong, hn::Set(d, 127));
  const V16 r = hn::And(right, hn::Set(d, 127));
  const V16 r_less_128 = hn::Or(right, hn::Set(d, -128));
  const V16 bulge = hn::Mul(hn::Sub(w, r), hn::Add(r_less_128, w));
  const V16 units = hn::Add(hn::Sub(right, wrong), hn::MulFixedPoint15(bulge, hn::Set(d, kLogBulge)));
  return hn::Min(hn::Max(units, least), most);
}

/// 1 - Y * U for a chunk, looked up at 3 * U + Y + 4.
class HalfErrors {
 public:
  HalfErrors() {
    constexpr std::array<std::int8_t, 16> kTable = {0, 1, 2, 1, 1, 1, 2, 1, 0};
    table_ = hn::LoadDup128(I8(), kTable.data());
  }

  /// What `add` needs of the verdict's signs.
  static HWY_INLINE V8 row_of(V8 verdict) {
    return hn::Add(hn::Add(hn::Set(I8(), 4), verdict), hn::Add(verdict, verdict));
  }

  /// c += 1 - Y * U.
  HWY_INLINE void add(V8 signs, V8 row, std::uint16_t* counts) const {
    const hn::ScalableTag<std::uint16_t> d;
    const auto more = hn::BitCast(d, hn::TableLookupBytes(table_, hn::Add(row, signs)));
    hn::StoreU(hn::Add(hn::LoadU(d, counts), hn::And(more, hn::Set(d, 0xff))), d, counts);
    hn::StoreU(hn::Add(hn::LoadU(d, counts + kLanes), hn::ShiftRight<8>(more)), d, counts + kLanes);
  }

 private:
  V8 table_;
};

void count_all(const Planes& ballot, const Planes& verdict, std::size_t first, std::size_t last,
               const Counts& half_errors) {
  const Signs signs;
  const HalfErrors half;
  for (std::size_t word = first; word < last; word += kBlockWords) {
    std::uint16_t* counts = half_errors.block(word / kBlockWords);
    const std::size_t chunks = std::min(kBlockWords, last - word) * kChunks;
    for (std::size_t c = 0; c < chunks; ++c) {
      hwy::Prefetch(counts + half_errors.stride + c * kChunk);  // past the end, this does nothing
      half.add(signs.at(ballot, word * kChunks + c),
               HalfErrors::row_of(signs.at(verdict, word * kChunks + c)), counts + c * kChunk);
    }
  }
}

/// The vote on one block of coordinates, and the count of it.
class BlockVote {
 public:
  BlockVote(std::span<const Voter> voters, std::int16_t clip)
      : voters_(voters),
        least_(hn::Set(I16(), static_cast<std::int16_t>(-clip))),
        most_(hn::Set(I16(), clip)),
        fit_(32767 / static_cast<std::size_t>(clip)) {}

  void vote(std::size_t block, std::size_t chunks, std::uint64_t* present, std::uint64_t* negative) {
    for (std::size_t c = 0; c < chunks; ++c) {
      const Sums sums = voters_.size() <= fit_ ? sum(0, voters_.size(), block, c) : clamped_sum(block, c);
      rows_[c] = write(sums, block * kBlockChunks + c, present, negative);
    }
  }

  void count(std::size_t block, std::size_t chunks) const {
    for (std::size_t m = 0; m < voters_.size(); ++m) {
      const Voter& voter = voters_[m];
      for (std::size_t c = 0; c < chunks; ++c) {
        const V8 y = m < kKeptVoters ? hn::Load(I8(), kept_.data() + (m * kBlockChunks + c) * kChunk)
                                     : signs_.at(voter.ballot, block * kBlockChunks + c);
        half_.add(y, rows_[c], voter.half_errors.block(block) + c * kChunk);
      }
    }
  }

 private:
  /// Of the first and the second vector of a chunk.
  struct Sums {
    V16 first, second;
  };

  /// REQUIRES: at most fit_ voters, or sixteen bits may not hold their sum.
  HWY_INLINE Sums sum(std::size_t begin, std::size_t end, std::size_t block, std::size_t c) {
    const I16 d;
    const auto voters = voters_;  // copies: for all the compiler knows, the stores below change the members
    const Signs signs = signs_;
    const V16 least = least_;
    const V16 most = most_;
    Sums sums{hn::Zero(d), hn::Zero(d)};
    for (std::size_t m = begin; m < end; ++m) {
      const Voter& voter = voters[m];
      const auto* counts = reinterpret_cast<const std::int16_t*>(voter.half_errors.block(block)) + c * kChunk;
      hwy::Prefetch(counts + voter.half_errors.stride);  // past the end, this does nothing
      const V8 y = signs.at(voter.ballot, block * kBlockChunks + c);
      if (m < kKeptVoters) hn::Store(y, I8(), kept_.data() + (m * kBlockChunks + c) * kChunk);
      const auto twice_rounds = hn::Set(hn::ScalableTag<float>(), voter.twice_rounds);
      const V16 first = weights(hn::LoadU(d, counts), twice_rounds, least, most);
      const V16 second = weights(hn::LoadU(d, counts + kLanes), twice_rounds, least, most);
      sums.first = hn::Add(sums.first, hn::Mul(first, first_signs(y)));
      sums.second = hn::Add(sums.second, hn::Mul(second, second_signs(y)));
    }
    return sums;
  }

  /// For any number of voters: the signs of the sums.
  Sums clamped_sum(std::size_t block, std::size_t c) {
    std::array<std::int32_t, kChunk> wide{};
    HWY_ALIGN std::array<std::int16_t, kChunk> narrow;
    for (std::size_t m = 0; m < voters_.size(); m += fit_) {
      const Sums part = sum(m, std::min(m + fit_, voters_.size()), block, c);
      hn::Store(part.first, I16(), narrow.data());
      hn::Store(part.second, I16(), narrow.data() + kLanes);
      for (std::size_t i = 0; i < kChunk; ++i) wide[i] += narrow[i];
    }
    for (std::size_t i = 0; i < kChunk; ++i)
      narrow[i] = static_cast<std::int16_t>(std::clamp(wide[i], -1, 1));
    return {hn::Load(I16(), narrow.data()), hn::Load(I16(), narrow.data() + kLanes)};
  }

  /// Writes the verdict, and returns its row for the count.
  static V8 write(const Sums& sums, std::size_t chunk, std::uint64_t* present, std::uint64_t* negative) {
    const I16 d;
    std::array<std::uint8_t, 16> p;  // as StoreMaskBits may write eight bytes, wherever it starts
    std::array<std::uint8_t, 16> n;
    hn::StoreMaskBits(d, hn::Ne(sums.first, hn::Zero(d)), p.data());
    hn::StoreMaskBits(d, hn::Ne(sums.second, hn::Zero(d)), p.data() + kLanes / 8);
    hn::StoreMaskBits(d, hn::Lt(sums.first, hn::Zero(d)), n.data());
    hn::StoreMaskBits(d, hn::Lt(sums.second, hn::Zero(d)), n.data() + kLanes / 8);
    std::memcpy(reinterpret_cast<std::uint8_t*>(present) + chunk * kChunk / 8, p.data(), kChunk / 8);
    std::memcpy(reinterpret_cast<std::uint8_t*>(negative) + chunk * kChunk / 8, n.data(), kChunk / 8);
    const auto sign = [d](V16 v) HWY_ATTR { return hn::Min(hn::Max(v, hn::Set(d, -1)), hn::Set(d, 1)); };
    const V16 low = hn::And(sign(sums.first), hn::Set(d, 0xff));
    return HalfErrors::row_of(hn::BitCast(I8(), hn::Or(low, hn::ShiftLeft<8>(sign(sums.second)))));
  }

  std::span<const Voter> voters_;
  V16 least_;
  V16 most_;
  std::size_t fit_;  // so many voters' sums surely fit sixteen bits
  Signs signs_;
  HalfErrors half_;
  V8 rows_[kBlockChunks];  // a plain array: std::array's own functions are compiled for no target
  HWY_ALIGN std::array<std::int8_t, kKeptVoters * kBlockChunks * kChunk> kept_;
};

void vote_all(std::span<const Voter> voters, std::int16_t clip, std::size_t first, std::size_t last,
              std::uint64_t* present, std::uint64_t* negative) {
  BlockVote block_vote(voters, clip);
  for (std::size_t word = first; word < last; word += kBlockWords) {
    // A cache line of each plane. There are too many streams of them for the hardware to follow.
    for (const Voter& voter : voters) {
      hwy::Prefetch(voter.ballot.present + word + 2 * kBlockWords);
      hwy::Prefetch(voter.ballot.negative + word + 2 * kBlockWords);
    }
    const std::size_t chunks = std::min(kBlockWords, last - word) * kChunks;
    block_vote.vote(word / kBlockWords, chunks, present, negative);
    block_vote.count(word / kBlockWords, chunks);
  }
}

}  // namespace

#endif  // of the targets with vectors

std::size_t pack16(const std::uint16_t* values, std::size_t n, std::uint64_t* present,
                   std::uint64_t* negative) {
  return pack_bits<std::uint16_t>(values, n, 0x7f80, present, negative);
}

std::size_t pack32(const std::uint32_t* values, std::size_t n, std::uint64_t* present,
                   std::uint64_t* negative) {
  return pack_bits<std::uint32_t>(values, n, 0x7f80'0000, present, negative);
}

std::size_t pack64(const std::uint64_t* values, std::size_t n, std::uint64_t* present,
                   std::uint64_t* negative) {
  return pack_bits<std::uint64_t>(values, n, 0x7ff0'0000'0000'0000, present, negative);
}

}  // namespace signvote::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace signvote::kernels {

HWY_EXPORT(pack16);
HWY_EXPORT(pack32);
HWY_EXPORT(pack64);
HWY_EXPORT(step_all);
HWY_EXPORT(majority_all);
HWY_EXPORT(vote_all);
HWY_EXPORT(count_all);

std::size_t pack(const float* values, std::size_t n, std::uint64_t* present,
                 std::uint64_t* negative) noexcept {
  return HWY_DYNAMIC_DISPATCH(pack32)(reinterpret_cast<const std::uint32_t*>(values), n, present, negative);
}

std::size_t pack(const double* values, std::size_t n, std::uint64_t* present,
                 std::uint64_t* negative) noexcept {
  return HWY_DYNAMIC_DISPATCH(pack64)(reinterpret_cast<const std::uint64_t*>(values), n, present, negative);
}

std::size_t pack(const std::uint16_t* values, std::size_t n, std::uint64_t* present,
                 std::uint64_t* negative) noexcept {
  return HWY_DYNAMIC_DISPATCH(pack16)(values, n, present, negative);
}

void step(float* x, std::size_t n, const std::uint64_t* present, const std::uint64_t* negative,
          float delta) noexcept {
  HWY_DYNAMIC_DISPATCH(step_all)(x, n, present, negative, delta);
}

void majority(std::span<const Planes> ballots, std::size_t first, std::size_t last, std::uint64_t* present,
              std::uint64_t* negative) noexcept {
  HWY_DYNAMIC_DISPATCH(majority_all)(ballots, first, last, present, negative);
}

void weighted_vote(std::span<const Voter> voters, std::int16_t clip, std::size_t first, std::size_t last,
                   std::uint64_t* present, std::uint64_t* negative) noexcept {
  HWY_DYNAMIC_DISPATCH(vote_all)(voters, clip, first, last, present, negative);
}

void count_half_errors(const Planes& ballot, const Planes& verdict, std::size_t first, std::size_t last,
                       const Counts& half_errors) noexcept {
  HWY_DYNAMIC_DISPATCH(count_all)(ballot, verdict, first, last, half_errors);
}

std::vector<std::string> targets() {
  std::vector<std::string> names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets())
    names.emplace_back(hwy::TargetName(target));
  return names;
}

void use_target(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets())
    if (name == hwy::TargetName(target)) hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace signvote::kernels
#endif  // HWY_ONCE
