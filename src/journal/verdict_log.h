// Where the verdicts lie in a log, found while it is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "journal/journal.h"

namespace signvote {

/// Where a verdict lies in its log. The checksum is its own: that of the record covers more.
struct Place {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

/// Of a verdict that begins at byte `offset` of its log.
Place place_of(std::span<const std::byte> verdict, std::uint64_t offset);

struct Segment {  // a verdicts-A-B.log
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::vector<Place> places;
};

struct LogContent {
  std::vector<Place> places;
  std::uint64_t bytes = 0;  // up to the last member or verdict: ballots that none follows do not count
  std::string torn;         // what is wrong with the rest, if there is any
};

/// Checks a log of rounds from `first` on: up to `last`, or as far as they go. Only the latter may end
/// torn. Throws DataError with the file, and where it is damaged with byte and round.
LogContent check_log(const InputFile& file, std::uint64_t first, std::optional<std::uint64_t> last);

}  // namespace signvote
