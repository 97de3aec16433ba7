// Fuzzes decode_record with libFuzzer: whatever decodes is what its record encodes to, and a record's
// status is what docs/journal_format.md says of the file that ends there. The checksums are set right
// first, or no mutation would ever get past them.
#include <xxhash.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "journal/journal.h"

namespace {

using namespace signvote;

constexpr std::size_t kHeader = 40;  // docs/journal_format.md
constexpr std::size_t kBodyBytes = 8, kBodyChecksum = 24, kHeaderChecksum = 32;

void require(bool held) {
  if (!held) std::abort();
}

void try_log(std::span<const std::byte> bytes) {
  while (true) {
    const DecodedRecord decoded = decode_record(bytes);
    if (decoded.status != RecordStatus::ok) {
      require((decoded.status == RecordStatus::end) == bytes.empty());
      require(decoded.problem.empty() == bytes.empty() && decoded.problem.find('\n') == std::string::npos);
      return;
    }
    require(decoded.length >= kHeader && decoded.length <= bytes.size());
    std::vector<std::byte> again;
    encode_record(decoded.record, again);
    require(again.size() == decoded.length && std::memcmp(again.data(), bytes.data(), again.size()) == 0);
    // Alone in its file it is as well; cut, it is torn; damaged, it is never taken for another.
    require(decode_record(again).status == RecordStatus::ok);
    require(decode_record(std::span(again).first(again.size() - 1)).status == RecordStatus::torn);
    again[again.size() / 2] ^= std::byte{1};
    require(decode_record(again).status != RecordStatus::ok);
    bytes = bytes.subspan(decoded.length);
  }
}

template <class T>
void put(std::vector<std::byte>& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// Makes the record at `at` one with right checksums: as long as it says, or else to the end. Returns
// where the next begins.
std::size_t seal(std::vector<std::byte>& bytes, std::size_t at) {
  std::uint64_t body = 0;
  std::memcpy(&body, bytes.data() + at + kBodyBytes, sizeof body);
  if (body > bytes.size() - at - kHeader) body = bytes.size() - at - kHeader;
  std::memcpy(bytes.data() + at, "SVJ1", 4);
  put(bytes, at + kBodyBytes, body);
  put(bytes, at + kBodyChecksum, XXH3_64bits(bytes.data() + at + kHeader, body));
  put(bytes, at + kHeaderChecksum, XXH3_64bits(bytes.data() + at, kHeaderChecksum));
  return at + kHeader + body;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  try_log(bytes);
  for (std::size_t at = 0; at + kHeader <= bytes.size();) at = seal(bytes, at);
  try_log(bytes);
  return 0;
}
