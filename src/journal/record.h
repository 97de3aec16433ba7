// The records of a .log file as bytes, and reading a log record by record.
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

/// The end of a round: of each worker in `counted`, the last ballot before it counts.
struct VerdictRecord {
  std::uint64_t round = 0;
  std::vector<std::uint32_t> counted;  // ascending
  std::vector<std::byte> verdict;
};

using LogRecord = std::variant<MemberRecord, BallotRecord, VerdictRecord>;

/// These append to `out`.
void encode_record(const MemberRecord& member, std::vector<std::byte>& out);
void encode_ballot(std::uint64_t round, const CastBallot& ballot, std::vector<std::byte>& out);
/// Returns where in the record's bytes the verdict begins.
std::size_t encode_verdict(std::uint64_t round, std::span<const std::uint32_t> counted,
                           std::span<const std::byte> verdict, std::vector<std::byte>& out);

enum class RecordStatus { ok, end, torn, corrupt };
struct DecodedRecord {
  RecordStatus status = RecordStatus::end;
  LogRecord record;        // if ok
  std::size_t length = 0;  // if ok: the bytes it took
  std::string problem;     // if torn or corrupt, one line
};
/// Reads the record at the front of `bytes`, which reach to the end of the file. torn: the file ends
/// within it, or what is there to the end is no record and none follows; corrupt: it is damaged and
/// more follows. Foreign bytes never crash it and never make it allocate more than they are long.
DecodedRecord decode_record(std::span<const std::byte> bytes);

/// Reads a log's first `end` bytes in order, with one record in memory at a time. (Only where a header
/// is broken it takes the rest of the file, to see whether a record follows.)
class LogReader {
 public:
  LogReader(const InputFile& file, std::uint64_t end) : file_(file), end_(end) {}

  /// The record at offset(), which moves on if it is ok.
  DecodedRecord next();
  std::uint64_t offset() const { return offset_; }

 private:
  const InputFile& file_;
  std::uint64_t end_;
  std::uint64_t offset_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace signvote
