// The weighted vote and the count of half-errors, in one pass over the counters.
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "kernels/kernels.h"
#include "kernels/plain.h"
#include "kernels/weight.h"

// This file is compiled once for each target: everything up to HWY_ONCE.
#define HWY_TARGET_INCLUDE "kernels/vote.cpp"
#include "kernels/highway.h"

HWY_BEFORE_NAMESPACE();
namespace signvote::kernels::HWY_NAMESPACE {

#if SIGNVOTE_PLAIN_TARGET

using plain::count_all;
using plain::fixed_vote_all;
using plain::vote_all;

#else

namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kBits = 64;  // of a word

using I8 = hn::ScalableTag<std::int8_t>;
using I16 = hn::ScalableTag<std::int16_t>;
using V8 = hn::Vec<I8>;
using V16 = hn::Vec<I16>;
using VF = hn::Vec<hn::ScalableTag<float>>;

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

/// As weight() of weight.h, lane by lane. `most_right` is twice_rounds - prior. Without a prior the sums with
/// it are left out.
template <bool kPrior>
HWY_INLINE V16 weights(V16 half_errors, VF prior, VF most_right, V16 least, V16 most) {
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
  const V16 wrong = kPrior ? float_bits(hn::Add(even, prior), hn::Add(odd, prior)) : float_bits(even, odd);
  const V16 right = float_bits(hn::Sub(most_right, even), hn::Sub(most_right, odd));
  const V16 w = hn::And(wrong, hn::Set(d, 127));
  const V16 r = hn::And(right, hn::Set(d, 127));
  const V16 r_less_128 = hn::Or(right, hn::Set(d, -128));
  const V16 bulge = hn::Mul(hn::Sub(w, r), hn::Add(r_less_128, w));
  const V16 units = hn::Add(hn::Sub(right, wrong), hn::MulFixedPoint15(bulge, hn::Set(d, kLogBulge)));
  return hn::Min(hn::Max(units, least), most);
}

/// Fetches a chunk of counts four blocks before its turn: they are used in the order of memory. Past the
/// end, this does nothing.
HWY_INLINE void fetch_ahead(const void* counts) {
  constexpr std::size_t kLine = 64;  // bytes
  for (std::size_t i = 0; i < kChunk * sizeof(std::uint16_t); i += kLine)
    hwy::Prefetch(static_cast<const std::uint8_t*>(counts) + 4 * kBlockCounts * sizeof(std::uint16_t) + i);
}

/// Fetches a cache line of each plane. There are too many streams of them for the hardware to follow.
HWY_INLINE void fetch_ahead(std::span<const Voter> voters, std::size_t word) {
  for (const Voter& voter : voters) {
    hwy::Prefetch(voter.ballot.present + word + 2 * kBlockWords);
    hwy::Prefetch(voter.ballot.negative + word + 2 * kBlockWords);
  }
}

/// Writes the verdict on a chunk, the signs of two vectors of sums, and returns it.
HWY_INLINE V8 write_signs(V16 first, V16 second, std::size_t chunk, std::uint64_t* present,
                          std::uint64_t* negative) {
  const I16 d;
  std::array<std::uint8_t, 16> p;  // as StoreMaskBits may write eight bytes, wherever it starts
  std::array<std::uint8_t, 16> n;
  hn::StoreMaskBits(d, hn::Ne(first, hn::Zero(d)), p.data());
  hn::StoreMaskBits(d, hn::Ne(second, hn::Zero(d)), p.data() + kLanes / 8);
  hn::StoreMaskBits(d, hn::Lt(first, hn::Zero(d)), n.data());
  hn::StoreMaskBits(d, hn::Lt(second, hn::Zero(d)), n.data() + kLanes / 8);
  std::memcpy(reinterpret_cast<std::uint8_t*>(present) + chunk * kChunk / 8, p.data(), kChunk / 8);
  std::memcpy(reinterpret_cast<std::uint8_t*>(negative) + chunk * kChunk / 8, n.data(), kChunk / 8);
  const auto sign = [d](V16 v) HWY_ATTR { return hn::Min(hn::Max(v, hn::Set(d, -1)), hn::Set(d, 1)); };
  const V16 low = hn::And(sign(first), hn::Set(d, 0xff));
  return hn::BitCast(I8(), hn::Or(low, hn::ShiftLeft<8>(sign(second))));
}

/// The verdict on a block of coordinates, and the count of half-errors by it.
class BlockCount {
 public:
  BlockCount() {
    constexpr std::array<std::int8_t, 16> kTable = {0, 1, 2, 1, 1, 1, 2, 1, 0};
    table_ = hn::LoadDup128(I8(), kTable.data());
  }

  /// The verdict's signs on a chunk.
  HWY_INLINE void set(std::size_t chunk, V8 signs) {
    rows_[chunk] = hn::Add(hn::Add(hn::Set(I8(), 4), signs), hn::Add(signs, signs));
  }

  /// c += 1 - Y * U, which is looked up at 3 * U + Y + 4, for the counts of a voter whose signs are
  /// signs_at(chunk). Returns the sum of what was added.
  template <class SignsAt>
  HWY_INLINE std::int64_t count(std::uint16_t* counts, std::size_t chunks, const SignsAt& signs_at) const {
    const hn::ScalableTag<std::uint16_t> d;
    const hn::ScalableTag<std::uint8_t> u8;
    static_assert(2 * kBlockChunks <= 255, "bytes hold their sums");
    auto sums = hn::Zero(u8);
    for (std::size_t c = 0; c < chunks; ++c, counts += kChunk) {
      const auto more = hn::BitCast(d, hn::TableLookupBytes(table_, hn::Add(rows_[c], signs_at(c))));
      sums = hn::Add(sums, hn::BitCast(u8, more));
      hn::StoreU(hn::Add(hn::LoadU(d, counts), hn::And(more, hn::Set(d, 0xff))), d, counts);
      hn::StoreU(hn::Add(hn::LoadU(d, counts + kLanes), hn::ShiftRight<8>(more)), d, counts + kLanes);
    }
    const hn::ScalableTag<std::uint64_t> u64;
    return static_cast<std::int64_t>(hn::GetLane(hn::SumOfLanes(u64, hn::SumsOf8(sums))));
  }

 private:
  V8 table_;
  V8 rows_[kBlockChunks];  // a plain array: std::array's own functions are compiled for no target
};

void count_all(std::span<const Voter> voters, const Planes& verdict, std::size_t first, std::size_t last,
               std::int64_t* new_half_errors) {
  if (voters.empty()) return;
  const Signs signs;
  BlockCount block_count;
  for (std::size_t word = first; word < last; word += kBlockWords) {
    fetch_ahead(voters, word);
    const std::size_t chunks = std::min(kBlockWords, last - word) * kChunks;
    for (std::size_t c = 0; c < chunks; ++c) block_count.set(c, signs.at(verdict, word * kChunks + c));
    for (std::size_t m = 0; m < voters.size(); ++m) {
      std::uint16_t* counts = voters[m].half_errors.block(word / kBlockWords);
      new_half_errors[m] += block_count.count(counts, chunks, [&](std::size_t c) HWY_ATTR {
        fetch_ahead(counts + c * kChunk);
        return signs.at(voters[m].ballot, word * kChunks + c);
      });
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
    for (V16& sum : sums_) sum = hn::Zero(I16());
    if (voters_.size() <= fit_)
      for (std::size_t m = 0; m < voters_.size(); ++m) add(m, block, chunks);
    else
      add_many(block, chunks);
    for (std::size_t c = 0; c < chunks; ++c)
      count_.set(c, write_signs(sums_[2 * c], sums_[2 * c + 1], block * kBlockChunks + c, present, negative));
  }

  /// Last voter first: the counts of those are still in the first-level cache.
  void count(std::size_t block, std::size_t chunks, std::int64_t* new_half_errors) const {
    for (std::size_t m = voters_.size(); m-- > 0;)
      new_half_errors[m] +=
          count_.count(voters_[m].half_errors.block(block), chunks, [&](std::size_t c) HWY_ATTR {
            return m < kKeptVoters ? hn::Load(I8(), kept_.data() + (m * kBlockChunks + c) * kChunk)
                                   : signs_.at(voters_[m].ballot, block * kBlockChunks + c);
          });
  }

 private:
  /// Adds the signs of voter m, weighted. REQUIRES: sums_ are of less than fit_ voters.
  HWY_INLINE void add(std::size_t m, std::size_t block, std::size_t chunks) {
    if (voters_[m].prior == 0)
      add<false>(m, block, chunks);
    else
      add<true>(m, block, chunks);
  }

  template <bool kPrior>
  HWY_INLINE void add(std::size_t m, std::size_t block, std::size_t chunks) {
    const I16 d;
    const Voter voter = voters_[m];
    const Signs signs = signs_;  // copies: for all the compiler knows, the stores below change the members
    const V16 least = least_;
    const V16 most = most_;
    const auto* counts = reinterpret_cast<const std::int16_t*>(voter.half_errors.block(block));
    const VF prior = hn::Set(hn::ScalableTag<float>(), voter.prior);
    const VF most_right = hn::Set(hn::ScalableTag<float>(), voter.twice_rounds - voter.prior);
    std::int8_t* kept = kept_.data() + std::min(m, kKeptVoters) * kBlockChunks * kChunk;
    for (std::size_t c = 0; c < chunks; ++c, counts += kChunk) {
      fetch_ahead(counts);
      const V8 y = signs.at(voter.ballot, block * kBlockChunks + c);
      hn::Store(y, I8(), kept + c * kChunk);
      const V16 first = weights<kPrior>(hn::LoadU(d, counts), prior, most_right, least, most);
      const V16 second = weights<kPrior>(hn::LoadU(d, counts + kLanes), prior, most_right, least, most);
      sums_[2 * c] = hn::Add(sums_[2 * c], hn::Mul(first, first_signs(y)));
      sums_[2 * c + 1] = hn::Add(sums_[2 * c + 1], hn::Mul(second, second_signs(y)));
    }
  }

  /// For any number of voters: leaves the signs of the sums.
  HWY_NOINLINE void add_many(std::size_t block, std::size_t chunks) {
    std::array<std::int32_t, kBlockCounts> wide{};
    HWY_ALIGN std::array<std::int16_t, kLanes> narrow;
    for (std::size_t begin = 0; begin < voters_.size(); begin += fit_) {
      const std::size_t end = std::min(begin + fit_, voters_.size());
      for (std::size_t m = begin; m < end; ++m) add(m, block, chunks);
      for (std::size_t v = 0; v < 2 * chunks; ++v) {
        hn::Store(sums_[v], I16(), narrow.data());
        for (std::size_t i = 0; i < kLanes; ++i) wide[v * kLanes + i] += narrow[i];
        sums_[v] = hn::Zero(I16());
      }
    }
    for (std::size_t v = 0; v < 2 * chunks; ++v) {
      for (std::size_t i = 0; i < kLanes; ++i)
        narrow[i] = static_cast<std::int16_t>(std::clamp(wide[v * kLanes + i], -1, 1));
      sums_[v] = hn::Load(I16(), narrow.data());
    }
  }

  std::span<const Voter> voters_;
  V16 least_;
  V16 most_;
  std::size_t fit_;  // so many voters' sums surely fit sixteen bits
  Signs signs_;
  BlockCount count_;
  V16 sums_[2 * kBlockChunks];  // two vectors for each chunk; a plain array, as above
  HWY_ALIGN std::array<std::int8_t, (kKeptVoters + 1) * kBlockChunks * kChunk> kept_;  // one for all others
};

void vote_all(std::span<const Voter> voters, std::int16_t clip, std::size_t first, std::size_t last,
              std::uint64_t* present, std::uint64_t* negative, std::int64_t* new_half_errors) {
  BlockVote block_vote(voters, clip);
  for (std::size_t word = first; word < last; word += kBlockWords) {
    fetch_ahead(voters, word);
    const std::size_t chunks = std::min(kBlockWords, last - word) * kChunks;
    block_vote.vote(word / kBlockWords, chunks, present, negative);
    block_vote.count(word / kBlockWords, chunks, new_half_errors);
  }
}

void fixed_vote_all(std::span<const FixedVoter> voters, std::size_t first, std::size_t last,
                    std::uint64_t* present, std::uint64_t* negative) {
  const Signs signs;
  for (std::size_t chunk = first * kChunks; chunk < last * kChunks; ++chunk) {
    V16 low = hn::Zero(I16());
    V16 high = hn::Zero(I16());
    for (const FixedVoter& voter : voters) {
      const V8 y = signs.at(voter.ballot, chunk);
      const V16 weight = hn::Set(I16(), voter.weight);
      low = hn::Add(low, hn::Mul(first_signs(y), weight));
      high = hn::Add(high, hn::Mul(second_signs(y), weight));
    }
    write_signs(low, high, chunk, present, negative);
  }
}

}  // namespace

#endif

}  // namespace signvote::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace signvote::kernels {

HWY_EXPORT(vote_all);
HWY_EXPORT(count_all);
HWY_EXPORT(fixed_vote_all);

void weighted_vote(std::span<const Voter> voters, std::int16_t clip, std::size_t first, std::size_t last,
                   std::uint64_t* present, std::uint64_t* negative, std::int64_t* new_half_errors) noexcept {
  HWY_DYNAMIC_DISPATCH(vote_all)(voters, clip, first, last, present, negative, new_half_errors);
}

void fixed_vote(std::span<const FixedVoter> voters, std::size_t first, std::size_t last,
                std::uint64_t* present, std::uint64_t* negative) noexcept {
  HWY_DYNAMIC_DISPATCH(fixed_vote_all)(voters, first, last, present, negative);
}

void count_half_errors(std::span<const Voter> voters, const Planes& verdict, std::size_t first,
                       std::size_t last, std::int64_t* new_half_errors) noexcept {
  HWY_DYNAMIC_DISPATCH(count_all)(voters, verdict, first, last, new_half_errors);
}

}  // namespace signvote::kernels
#endif  // HWY_ONCE
