// What journal.cpp knows of records beyond journal.h: reading a log record by record, and where in a
// record the verdict lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/files.h"
#include "journal/journal.h"

namespace signvote {

/// The verdict's place in the bytes of `record`; it is record.verdict.size() long.
std::size_t verdict_offset(const RoundRecord& record);

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
