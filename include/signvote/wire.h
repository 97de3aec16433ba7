// Ballots and verdicts as bytes: one message is a 64-byte header and a body. docs/wire_format.md is
// the specification; tests/ballot/golden pins version 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "signvote/sign_vector.h"

namespace signvote {

inline constexpr std::size_t kHeaderBytes = 64;

enum class MessageKind : std::uint8_t { ballot = 1, verdict = 2 };

/// How the body holds the signs: dense if nobody abstains, else masked. Both are lossless.
enum class Codec : std::uint8_t {
  dense = 1,   // one sign bit per coordinate
  masked = 2,  // presence mask (zstd, or raw where that is smaller), then the signs of those present
};

/// What a message is about. In a verdict, `worker` is 0.
struct MessageHeader {
  MessageKind kind = MessageKind::ballot;
  std::uint64_t run_id = 0;
  std::uint64_t round = 0;
  std::uint32_t worker = 0;
  std::uint64_t size = 0;  // N, the number of coordinates

  bool operator==(const MessageHeader&) const = default;
};

/// REQUIRES: header.size == signs.size(), and worker 0 in a verdict. Replaces what `out` held; at most
/// kHeaderBytes + 2 * ceil(N / 8) bytes. The same signs give the same bytes (with the same libzstd).
void encode(const MessageHeader& header, const SignVector& signs, std::vector<std::byte>& out);

/// Reads the header alone and checks what can be checked without the body (magic, version, known
/// kind and codec, lengths that agree with bytes.size()). False: `problem` says in one line what is
/// wrong. Allocates nothing but that line. The checksum is not looked at and header.size is only a
/// claim, up to 2^64 - 1: compare it before allocating.
bool decode_header(std::span<const std::byte> bytes, MessageHeader& header, std::string& problem);

/// Reads a message that must be about exactly `expected`. Foreign bytes never crash it and never
/// make it allocate more than expected.size allows. False: `problem` says in one line what is
/// wrong, and `signs` is unspecified.
bool decode(std::span<const std::byte> bytes, const MessageHeader& expected, SignVector& signs,
            std::string& problem);

}  // namespace signvote
