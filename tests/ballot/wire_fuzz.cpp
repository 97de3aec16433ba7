// Fuzzes decode with libFuzzer: whatever decodes is canonical and survives another round trip, and no
// two dense messages mean the same. The checksum is corrected first, because otherwise no mutation would
// ever get past it.
#include <xxhash.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "signvote/wire.h"

namespace {

using namespace signvote;

constexpr std::uint64_t kMostCoordinates = 1 << 20;  // a fuzzer's memory, not the format's limit
constexpr std::size_t kChecksum = 56;

void require(bool held) {
  if (!held) std::abort();
}

void seal(std::vector<std::byte>& message) {
  std::vector<std::byte> covered = message;
  covered.erase(covered.begin() + kChecksum, covered.begin() + kHeaderBytes);
  const std::uint64_t checksum = XXH3_64bits(covered.data(), covered.size());
  std::memcpy(message.data() + kChecksum, &checksum, sizeof checksum);
}

void try_message(const std::vector<std::byte>& message) {
  MessageHeader header;
  SignVector signs;
  std::string problem;
  if (!decode_header(message, header, problem)) {
    require(!problem.empty() && problem.find('\n') == std::string::npos);
    require(!decode(message, header, signs, problem));
    return;
  }
  if (header.size > kMostCoordinates) header.size = kMostCoordinates;
  problem.clear();
  if (!decode(message, header, signs, problem)) {
    require(!problem.empty() && problem.find('\n') == std::string::npos);
    return;
  }
  SignVector canonical(signs.size());
  for (std::size_t i = 0; i < signs.size(); ++i) canonical.set(i, signs[i]);
  require(signs == canonical);
  std::vector<std::byte> again;
  encode(header, signs, again);
  require(message[7] != static_cast<std::byte>(Codec::dense) || again == message);
  SignVector back;
  require(decode(again, header, back, problem) && back == signs);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> message(size);
  if (size > 0) std::memcpy(message.data(), data, size);
  try_message(message);
  if (size < kHeaderBytes) return 0;
  const std::uint64_t body_bytes = size - kHeaderBytes;
  std::memcpy(message.data() + 48, &body_bytes, sizeof body_bytes);
  seal(message);
  try_message(message);
  return 0;
}
