// Encodes the records of a .log file, and reads a log record by record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/files.h"
#include "journal/journal.h"

namespace signvote {

/// One worker's answer in the round that is open.
struct BallotRecord {
  std::uint64_t round = 0;
  CastBallot ballot;
};

/// The end of a round. For each worker in `counted`, its last ballot before this record counts.
struct VerdictRecord {
  std::uint64_t round = 0;
  std::vector<std::uint32_t> counted;  // ascending
  std::vector<std::byte> verdict;
};

using LogRecord = std::variant<MemberRecord, BallotRecord, VerdictRecord>;

/// How a log begins. All checksums of its records depend on the seed, which is drawn anew for every log and
/// which no worker knows: otherwise a ballot could hold bytes that look like a record.
struct LogStart {
  std::uint64_t seed = 0;
  std::uint64_t bytes =
      0;  // before the first record; in a log of version 2 there are none, and the seed is 0
};

/// A start with a random seed, and its bytes, which are appended to `out`.
LogStart encode_start(std::vector<std::byte>& out);
/// Throws DataError if the start is damaged or of a version that is not known. Such a file is never torn,
/// because the start is on the disk before the file gets its name.
LogStart read_start(const InputFile& log);
inline constexpr std::uint64_t kStartBytes = 24;

/// These append to `out`. `synced` is how many bytes of the log were on the disk before this record was
/// written.
void encode_member(const MemberRecord& member, std::uint64_t synced, std::uint64_t seed,
                   std::vector<std::byte>& out);
void encode_ballot(std::uint64_t round, const CastBallot& ballot, std::uint64_t synced, std::uint64_t seed,
                   std::vector<std::byte>& out);
/// Returns where in `out` the verdict begins. REQUIRES: `counted` ascends.
std::size_t encode_verdict(std::uint64_t round, std::span<const std::uint32_t> counted,
                           std::span<const std::byte> verdict, std::uint64_t synced, std::uint64_t seed,
                           std::vector<std::byte>& out);

enum class RecordStatus { ok, end, torn, corrupt };
struct DecodedRecord {
  RecordStatus status = RecordStatus::end;
  LogRecord record;          // if ok
  std::uint64_t synced = 0;  // if ok: the value it was encoded with
  std::size_t length = 0;    // if ok: its bytes
  std::string problem;       // if torn or corrupt, one line
};
/// Reads the record at byte `offset` of a log. `bytes` are the log from there to its end. A record is torn
/// if it is incomplete and no later record says that it was on the disk: a crash leaves such records.
/// Otherwise a bad record is corrupt. Foreign bytes never crash this and never make it allocate more than
/// their length.
DecodedRecord decode_record(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t seed);

/// Reads a log's records in order from byte `offset` to byte `end`, one in memory at a time. Only if a
/// record is incomplete, it reads the rest of the file, to see what later records say.
class LogReader {
 public:
  LogReader(const InputFile& file, std::uint64_t offset, std::uint64_t end, std::uint64_t seed)
      : file_(file), offset_(offset), end_(end), seed_(seed) {}

  /// Reads the record at offset(), and moves on if it is ok.
  DecodedRecord next();
  std::uint64_t offset() const { return offset_; }

 private:
  void read_to(std::uint64_t end);

  const InputFile& file_;
  std::uint64_t offset_;
  std::uint64_t end_;
  std::uint64_t seed_;
  std::vector<std::byte> bytes_;
};

}  // namespace signvote
