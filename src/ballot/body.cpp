// On a little-endian machine the planes in memory have the bit order of the wire. So a dense body is a
// copy of one plane, zstd reads the presence plane where it is, and only the signs of a masked body have
// to be moved together.
#include "ballot/body.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace signvote {

static_assert(std::endian::native == std::endian::little, "bodies are copied as they lie in memory");

// The portable twins of pext and pdep. They are outside of the unnamed namespace so that wire_test.cpp
// can compare them with a loop over bits: most machines have the instructions and never call them.
namespace detail {

/// The bits of `value` where `mask` is 1, moved together at the low end. It handles a run of ones at a
/// time, because abstentions come in runs.
std::uint64_t gather_bits(std::uint64_t value, std::uint64_t mask) {
  std::uint64_t gathered = 0;
  for (int filled = 0; mask != 0;) {
    const int skip = std::countr_zero(mask);
    mask >>= skip;
    value >>= skip;
    const int run = std::countr_one(mask);
    if (run == 64) return value;
    gathered |= (value & ((std::uint64_t{1} << run) - 1)) << filled;
    filled += run;
    mask >>= run;
    value >>= run;
  }
  return gathered;
}

/// The inverse of gather_bits: moves the low bits of `value`, in order, to where `mask` is 1.
std::uint64_t scatter_bits(std::uint64_t value, std::uint64_t mask) {
  std::uint64_t scattered = 0;
  while (mask != 0) {
    const int skip = std::countr_zero(mask);
    const int run = std::countr_one(mask >> skip);
    if (run == 64) return value;
    scattered |= (value & ((std::uint64_t{1} << run) - 1)) << skip;
    value >>= run;
    mask &= mask + (std::uint64_t{1} << skip);  // clears the run
  }
  return scattered;
}

}  // namespace detail

namespace {

using Word = std::uint64_t;
using MoveBits = Word (*)(Word value, Word mask);

// As measured in docs/wire_format.md, higher levels gain next to nothing and take up to seven times as
// long, and negative levels do not compress scattered abstentions.
constexpr int kZstdLevel = 1;

// A context of a C library for each thread, because making one costs more than the work on a mask.
template <auto make, auto release>
auto* context_of_thread() {
  using Context = std::remove_pointer_t<decltype(make())>;
  struct Release {
    void operator()(Context* context) const { release(context); }
  };
  thread_local std::unique_ptr<Context, Release> context(make());
  if (!context) throw std::bad_alloc();
  return context.get();
}

// pext and pdep are 4 to 20 times as fast as their twins, except on AMD family 17h, where they are
// microcode.
#if defined(__x86_64__)
__attribute__((target("bmi2"))) Word gather_bmi2(Word value, Word mask) { return _pext_u64(value, mask); }
__attribute__((target("bmi2"))) Word scatter_bmi2(Word value, Word mask) { return _pdep_u64(value, mask); }
const bool kBmi2 = (__builtin_cpu_init(), __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("amdfam17h"));
MoveBits gather() { return kBmi2 ? gather_bmi2 : detail::gather_bits; }
MoveBits scatter() { return kBmi2 ? scatter_bmi2 : detail::scatter_bits; }
#else
MoveBits gather() { return detail::gather_bits; }
MoveBits scatter() { return detail::scatter_bits; }
#endif

// Writes the signs of the present coordinates to `out`, without gaps. Returns the end of what it wrote.
std::byte* compact(SignView signs, std::byte* out) {
  const MoveBits move = gather();
  Word pending = 0;
  unsigned filled = 0;  // bits of `pending` in use, below 64
  for (std::size_t w = 0; w < signs.present().size(); ++w) {
    const Word mask = signs.present()[w];
    if (mask == 0) continue;
    const bool full = mask == ~Word{0};
    const Word bits = full ? signs.negative()[w] : move(signs.negative()[w], mask);
    const unsigned count = full ? 64 : static_cast<unsigned>(std::popcount(mask));
    pending |= bits << filled;
    if (filled + count >= 64) {
      std::memcpy(out, &pending, sizeof pending);
      out += sizeof pending;
      pending = bits >> 1 >> (63 - filled);  // in two steps, because a shift by 64 is undefined
    }
    filled = (filled + count) % 64;
  }
  std::memcpy(out, &pending, packed_bytes(filled));
  return out + packed_bytes(filled);
}

// Word i of `bytes`. Bytes past their end count as zero.
Word load_word(std::span<const std::byte> bytes, std::size_t i) {
  Word word = 0;
  if (i < bytes.size() / 8)
    std::memcpy(&word, bytes.data() + i * 8, 8);
  else if (i * 8 < bytes.size())
    std::memcpy(&word, bytes.data() + i * 8, bytes.size() - i * 8);
  return word;
}

// The inverse of compact, given the presence plane. Returns how many coordinates are present.
std::size_t expand(std::span<const std::byte> bytes, SignWords signs) {
  const MoveBits move = scatter();
  std::size_t position = 0;
  for (std::size_t w = 0; w < signs.present.size(); ++w) {
    const Word mask = signs.present[w];
    if (mask == 0) {
      signs.negative[w] = 0;
      continue;
    }
    const std::size_t shift = position % 64;
    const Word low = load_word(bytes, position / 64), high = load_word(bytes, position / 64 + 1);
    const Word bits = low >> shift | high << 1 << (63 - shift);
    const bool full = mask == ~Word{0};
    signs.negative[w] = full ? bits : move(bits, mask);
    position += full ? 64 : static_cast<std::size_t>(std::popcount(mask));
  }
  return position;
}

bool has_bits_past(std::span<const Word> plane, std::size_t size) {
  return size % 64 != 0 && plane.back() >> (size % 64) != 0;
}

bool fail(std::string& problem, std::string text) {
  problem = std::move(text);
  return false;
}

// Fills `plane` from exactly one zstd frame. It checks the magic number itself, because the library
// would also accept the formats from before zstd 0.8, with old code that should not see foreign bytes.
bool decompress_mask(std::span<const std::byte> frame, std::span<std::byte> plane, std::string& problem) {
  std::uint32_t magic = 0;
  if (frame.size() >= sizeof magic) std::memcpy(&magic, frame.data(), sizeof magic);
  if (magic != ZSTD_MAGICNUMBER || ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size())
    return fail(problem, "presence mask is not one whole zstd frame");
  auto* context = context_of_thread<ZSTD_createDCtx, ZSTD_freeDCtx>();
  const std::size_t got =
      ZSTD_decompressDCtx(context, plane.data(), plane.size(), frame.data(), frame.size());
  if (ZSTD_isError(got) != 0)
    return fail(problem, fmt::format("presence mask does not decompress into {} bytes: {}", plane.size(),
                                     ZSTD_getErrorName(got)));
  if (got != plane.size())
    return fail(problem, fmt::format("presence mask decompresses into {} bytes, not {}", got, plane.size()));
  return true;
}

bool read_dense(std::span<const std::byte> body, SignWords signs, std::string& problem) {
  if (signs.size == 0) return true;
  signs.negative.back() = 0;
  std::memcpy(signs.negative.data(), body.data(), body.size());
  if (has_bits_past(signs.negative, signs.size))
    return fail(problem, "sign bits past the last coordinate are not zero");
  std::ranges::fill(signs.present, ~Word{0});
  if (signs.size % 64 != 0) signs.present.back() = ~(~Word{0} << (signs.size % 64));
  return true;
}

bool read_masked(const BodyLayout& layout, std::span<const std::byte> body, SignWords signs,
                 std::string& problem) {
  const auto mask = body.first(layout.mask_bytes), packed = body.subspan(layout.mask_bytes);
  if (signs.size > 0) signs.present.back() = 0;
  const auto plane = std::as_writable_bytes(signs.present).first(packed_bytes(signs.size));
  if (layout.mask_encoding == MaskEncoding::raw)
    std::ranges::copy(mask, plane.begin());
  else if (!decompress_mask(mask, plane, problem))
    return false;
  if (has_bits_past(signs.present, signs.size))
    return fail(problem, "presence mask has bits past the last coordinate");
  const std::size_t present = expand(packed, signs);
  if (present == signs.size) return fail(problem, "masked codec though no coordinate abstains");
  if (packed.size() != packed_bytes(present))
    return fail(problem, fmt::format("{} sign bytes for {} present coordinates", packed.size(), present));
  if (present % 8 != 0 && std::to_integer<unsigned>(packed.back()) >> (present % 8) != 0)
    return fail(problem, "sign bits past the last present coordinate are not zero");
  return true;
}

}  // namespace

BodyLayout write_body(SignView signs, std::vector<std::byte>& out, std::size_t offset) {
  assert(offset <= out.size());
  BodyLayout layout;
  const std::size_t packed = packed_bytes(signs.size());
  if (signs.count_present() == signs.size()) {
    out.resize(offset + packed);
    std::ranges::copy(std::as_bytes(signs.negative()).first(packed), out.data() + offset);
  } else {
    out.resize(offset + 2 * packed);
    std::byte* body = out.data() + offset;
    // zstd gets room for one byte less than the raw mask has, so that it fails if it gains nothing.
    layout.codec = Codec::masked;
    layout.mask_encoding = MaskEncoding::zstd;
    layout.mask_bytes = ZSTD_compressCCtx(context_of_thread<ZSTD_createCCtx, ZSTD_freeCCtx>(), body,
                                          packed - 1, signs.present().data(), packed, kZstdLevel);
    if (ZSTD_isError(layout.mask_bytes) != 0) {
      layout.mask_encoding = MaskEncoding::raw;
      layout.mask_bytes = packed;
      std::memcpy(body, signs.present().data(), packed);
    }
    const std::byte* end = compact(signs, body + layout.mask_bytes);
    out.resize(static_cast<std::size_t>(end - out.data()));
  }
  layout.bytes = out.size() - offset;
  return layout;
}

bool is_possible(const BodyLayout& layout, std::uint64_t size) {
  const std::uint64_t packed = packed_bytes(size);
  if (layout.codec == Codec::dense)
    return layout.mask_encoding == MaskEncoding::none && layout.mask_bytes == 0 && layout.bytes == packed;
  if (layout.codec != Codec::masked || layout.mask_bytes > layout.bytes ||
      layout.bytes - layout.mask_bytes > packed)
    return false;
  return (layout.mask_encoding == MaskEncoding::raw && layout.mask_bytes == packed) ||
         (layout.mask_encoding == MaskEncoding::zstd && layout.mask_bytes < packed);
}

bool read_body(const BodyLayout& layout, std::span<const std::byte> body, SignWords signs,
               std::string& problem) {
  assert(is_possible(layout, signs.size) && body.size() == layout.bytes);
  return layout.codec == Codec::dense ? read_dense(body, signs, problem)
                                      : read_masked(layout, body, signs, problem);
}

}  // namespace signvote
