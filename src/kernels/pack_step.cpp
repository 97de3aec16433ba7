// From a gradient to a ballot, and from a verdict to a step.
#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/plain.h"

// This file is compiled once for each target: everything up to HWY_ONCE.
#define HWY_TARGET_INCLUDE "kernels/pack_step.cpp"
#include "kernels/highway.h"

HWY_BEFORE_NAMESPACE();
namespace signvote::kernels::HWY_NAMESPACE {

#if SIGNVOTE_PLAIN_TARGET

using plain::pack_bits;
using plain::step_all;

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
template <bool kDecays>
void step_word(float* HWY_RESTRICT x, std::uint64_t present, std::uint64_t negative, float delta,
               float decay) {
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
      auto before = hn::LoadU(df, x + 32 * half + j);
      if constexpr (kDecays) before = hn::Sub(before, hn::Mul(hn::Set(df, decay), before));
      const auto after = hn::Sub(before, hn::BitCast(df, hn::Xor(forward, back)));
      const auto moves = hn::RebindMask(df, hn::TestBit(p, bits));
      hn::StoreU(hn::IfThenElse(moves, after, before), df, x + 32 * half + j);
    }
  }
}

template <bool kDecays>
void step_words(float* HWY_RESTRICT x, std::size_t n, const std::uint64_t* HWY_RESTRICT present,
                const std::uint64_t* HWY_RESTRICT negative, float delta, float decay) {
  const std::size_t words = n / kBits;
  for (std::size_t word = 0; word < words; ++word)
    step_word<kDecays>(x + word * kBits, present[word], negative[word], delta, decay);
  if (n % kBits != 0) {
    std::array<float, kBits> tail{};
    std::copy(x + words * kBits, x + n, tail.data());
    step_word<kDecays>(tail.data(), present[words], negative[words], delta, decay);
    std::copy_n(tail.data(), n % kBits, x + words * kBits);
  }
}

void step_all(float* HWY_RESTRICT x, std::size_t n, const std::uint64_t* HWY_RESTRICT present,
              const std::uint64_t* HWY_RESTRICT negative, float delta, float decay) {
  if (decay == 0)
    step_words<false>(x, n, present, negative, delta, decay);
  else
    step_words<true>(x, n, present, negative, delta, decay);
}

}  // namespace

#endif

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

void step(float* x, std::size_t n, const std::uint64_t* present, const std::uint64_t* negative, float delta,
          float decay) noexcept {
  HWY_DYNAMIC_DISPATCH(step_all)(x, n, present, negative, delta, decay);
}

}  // namespace signvote::kernels
#endif  // HWY_ONCE
