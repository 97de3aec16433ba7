// The signs of a message without its header: a dense or a masked body, as docs/wire_format.md specifies
// them. wire.cpp puts a header before it, and the engine of clusters puts several under one header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "signvote/sign_vector.h"
#include "signvote/wire.h"

namespace signvote {

enum class MaskEncoding : std::uint32_t { none = 0, raw = 1, zstd = 2 };

/// What a reader must know of a body besides the number of coordinates.
struct BodyLayout {
  Codec codec = Codec::dense;
  MaskEncoding mask_encoding = MaskEncoding::none;
  std::uint64_t mask_bytes = 0;
  std::uint64_t bytes = 0;  // of the whole body
};

/// How many bytes hold `bits` bits. It does not overflow for any number of bits.
constexpr std::uint64_t packed_bytes(std::uint64_t bits) { return bits / 8 + (bits % 8 != 0); }

/// The most bytes that a body of `size` coordinates can have.
constexpr std::uint64_t most_body_bytes(std::uint64_t size) {
  return most_message_bytes(size) - kHeaderBytes;
}

/// Writes a body behind the first `offset` bytes of `out`, which stay as they are, and cuts `out` to its
/// end. REQUIRES: offset <= out.size().
BodyLayout write_body(SignView signs, std::vector<std::byte>& out, std::size_t offset);

/// Whether a body of `size` coordinates can have this layout at all.
bool is_possible(const BodyLayout& layout, std::uint64_t size);

/// The memory into which signs are read: `size` coordinates, in as many words as they need.
struct SignWords {
  SignWords(SignVector& signs) : SignWords(signs, 0, signs.size()) {}
  /// The coordinates [first, first + size) of `signs`. REQUIRES: the same as SignView::slice.
  SignWords(SignVector& signs, std::size_t first, std::size_t part)
      : size(part),
        present(signs.present().subspan(first / SignVector::kBits, SignVector::words(part))),
        negative(signs.negative().subspan(first / SignVector::kBits, SignVector::words(part))) {}

  std::size_t size;
  std::span<std::uint64_t> present;
  std::span<std::uint64_t> negative;
};

/// Replaces all of `signs`. The bytes may come from anybody. Returns false if something is wrong;
/// `problem` then says what in one line, and the contents of `signs` are unspecified.
/// REQUIRES: is_possible(layout, signs.size), and body.size() == layout.bytes.
[[nodiscard]] bool read_body(const BodyLayout& layout, std::span<const std::byte> body, SignWords signs,
                             std::string& problem);

}  // namespace signvote
