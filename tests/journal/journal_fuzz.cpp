// Fuzzes decode_record with libFuzzer: whatever decodes is what its record encodes to, and a record's
// status is what docs/journal_format.md says of it. The checksums are set right
// first, or no mutation would ever get past them. An input that begins with SVJ3 is a log with a seed.
#include <xxhash.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "journal/record.h"

namespace {

using namespace signvote;

constexpr std::size_t kHeader = 48, kStart = 24;  // docs/journal_format.md
constexpr std::size_t kBodyBytes = 8, kSynced = 24, kBodyChecksum = 32, kHeaderChecksum = 40;

void require(bool held) {
  if (!held) std::abort();
}

template <class T>
T get(std::span<const std::byte> bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::vector<std::byte> encoded(const LogRecord& record, std::uint64_t synced, std::uint64_t seed) {
  std::vector<std::byte> bytes;
  if (const auto* member = std::get_if<MemberRecord>(&record)) encode_member(*member, synced, seed, bytes);
  if (const auto* ballot = std::get_if<BallotRecord>(&record))
    encode_ballot(ballot->round, ballot->ballot, synced, seed, bytes);
  if (const auto* verdict = std::get_if<VerdictRecord>(&record))
    encode_verdict(verdict->round, verdict->counted, verdict->verdict, synced, seed, bytes);
  return bytes;
}

// Whether a good header in `bytes`, at any byte, says that more than the log's first `offset` bytes were
// synced.
bool knows_more_synced_than(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t seed) {
  for (; bytes.size() >= kHeader; bytes = bytes.subspan(1))
    if (std::memcmp(bytes.data(), "SVJ2", 4) == 0 &&
        get<std::uint64_t>(bytes, kHeaderChecksum) ==
            XXH3_64bits_withSeed(bytes.data(), kHeaderChecksum, seed) &&
        get<std::uint64_t>(bytes, kSynced) > offset)
      return true;
  return false;
}

void try_log(std::span<const std::byte> log, std::size_t begin, std::uint64_t seed) {
  for (std::size_t at = begin;;) {
    const auto bytes = log.subspan(at);
    const DecodedRecord decoded = decode_record(bytes, at, seed);
    if (decoded.status != RecordStatus::ok) {
      require((decoded.status == RecordStatus::end) == bytes.empty());
      require(decoded.problem.empty() == bytes.empty() && decoded.problem.find('\n') == std::string::npos);
      return;
    }
    require(decoded.length >= kHeader && decoded.length <= bytes.size());
    std::vector<std::byte> again = encoded(decoded.record, decoded.synced, seed);
    require(again.size() == decoded.length && std::memcmp(again.data(), bytes.data(), again.size()) == 0);
    // Alone in its log it is as well, and cut it is torn. Damaged, it is torn as long as nothing knows
    // better.
    require(decode_record(again, at, seed).status == RecordStatus::ok);
    require(decode_record(std::span(again).first(again.size() - 1), at, seed).status == RecordStatus::torn);
    const auto rest = bytes.subspan(decoded.length);
    again.insert(again.end(), rest.begin(), rest.end());
    again[decoded.length - 1] ^= std::byte{1};
    const bool knows = knows_more_synced_than(rest, at, seed);
    require(decode_record(again, at, seed).status == (knows ? RecordStatus::corrupt : RecordStatus::torn));
    at += decoded.length;
  }
}

template <class T>
void put(std::vector<std::byte>& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// Makes the record at `at` one with right checksums: as long as it says, or else to the end. Returns
// where the next begins.
std::size_t seal(std::vector<std::byte>& bytes, std::size_t at, std::uint64_t seed) {
  auto body = get<std::uint64_t>(bytes, at + kBodyBytes);
  if (body > bytes.size() - at - kHeader) body = bytes.size() - at - kHeader;
  std::memcpy(bytes.data() + at, "SVJ2", 4);
  put(bytes, at + kBodyBytes, body);
  put(bytes, at + kBodyChecksum, XXH3_64bits_withSeed(bytes.data() + at + kHeader, body, seed));
  put(bytes, at + kHeaderChecksum, XXH3_64bits_withSeed(bytes.data() + at, kHeaderChecksum, seed));
  return at + kHeader + body;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  const bool has_start = size >= kStart && std::memcmp(data, "SVJ3", 4) == 0;
  const std::size_t begin = has_start ? kStart : 0;
  const std::uint64_t seed = has_start ? get<std::uint64_t>(bytes, 8) : 0;
  try_log(bytes, begin, seed);
  for (std::size_t at = begin; at + kHeader <= bytes.size();) at = seal(bytes, at, seed);
  try_log(bytes, begin, seed);
  return 0;
}
