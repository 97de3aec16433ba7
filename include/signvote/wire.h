// Ballots and verdicts as bytes: one message is a 64-byte header and a body. docs/wire_format.md is
// the specification; tests/ballot/golden pins version 1.
//
// Threads: all of these functions may be called from any number of threads that do not share what they
// write. They keep zstd contexts for each thread.
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
  masked = 2,  // presence mask (zstd, or raw where that is smaller), then the present signs alone
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

/// The most bytes that a message of `size` coordinates can have.
constexpr std::uint64_t most_message_bytes(std::uint64_t size) {
  return kHeaderBytes + 2 * (size / 8 + (size % 8 != 0));
}

/// Replaces what `out` held by the message. The same signs give the same bytes (with the same libzstd).
/// REQUIRES: header.size == signs.size(), and worker 0 in a verdict.
void encode(const MessageHeader& header, SignView signs, std::vector<std::byte>& out);

/// Reads the header alone and checks what can be checked without the body (magic, version, known kind
/// and codec, lengths that agree with bytes.size()). Returns false if something is wrong; `problem` then
/// says what in one line. The checksum is not verified, so header.size is only a claim of the sender's
/// and may be as large as 2^64 - 1: compare it with what you expect before you allocate.
[[nodiscard]] bool decode_header(std::span<const std::byte> bytes, MessageHeader& header,
                                 std::string& problem);

/// Reads a message whose header must say exactly what `expected` says. The bytes may come from anybody:
/// they cannot crash it, nor make it allocate more than expected.size allows. Returns false if something
/// is wrong; `problem` then says what in one line, and the contents of `signs` are unspecified.
[[nodiscard]] bool decode(std::span<const std::byte> bytes, const MessageHeader& expected, SignVector& signs,
                          std::string& problem);

}  // namespace signvote
