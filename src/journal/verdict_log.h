// Checks a log and notes where its verdicts are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "journal/journal.h"
#include "journal/record.h"

namespace signvote {

/// Where a verdict is in its log. The checksum is that of the verdict alone, because the record's covers
/// more.
struct Place {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

/// The place of a verdict that begins at byte `offset` of its log.
Place place_of(std::span<const std::byte> verdict, std::uint64_t offset);

struct Segment {  // a verdicts-A-B.log
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::vector<Place> places;
};

struct LogContent {
  LogStart start;
  std::vector<Place> places;
  std::uint64_t bytes = 0;  // up to the last member or verdict, because ballots after it do not count
  std::string torn;         // what is wrong with the rest; empty: nothing
};

/// Checks a log of rounds from `first` on, up to `last` or, if that is not given, as far as they go. Only
/// then may the end be torn. Throws DataError with the file and, if it is damaged, byte and round.
LogContent check_log(const InputFile& file, std::uint64_t first, std::optional<std::uint64_t> last);

}  // namespace signvote
