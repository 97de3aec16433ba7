#include "journal/verdict_log.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <set>

#include "signvote/error.h"

namespace signvote {

Place place_of(std::span<const std::byte> verdict, std::uint64_t offset) {
  return {.offset = offset, .bytes = verdict.size(), .checksum = XXH3_64bits(verdict.data(), verdict.size())};
}

LogContent check_log(const InputFile& file, std::uint64_t first, std::optional<std::uint64_t> last) {
  LogContent content;
  content.start = read_start(file);
  content.bytes = content.start.bytes;
  LogReader reader(file, content.start.bytes, file.bytes(), content.start.seed);
  std::set<std::uint32_t> voted;  // in the open round
  const std::string name = file.path().string();
  while (true) {
    const std::uint64_t at = reader.offset();
    const std::uint64_t expected = first + content.places.size();
    const auto damaged = [&](const std::string& problem) {
      const std::string way_out =
          last ? "" : fmt::format(", or give up the rounds from there on: truncate -s {} '{}'", at, name);
      throw DataError(fmt::format("'{}' is damaged at byte {}, in round {}: {}; put it back from a backup{}",
                                  name, at, expected, problem, way_out));
    };
    const DecodedRecord decoded = reader.next();
    if (decoded.status == RecordStatus::end) break;
    if (decoded.status == RecordStatus::torn && !last) {
      content.torn = decoded.problem;
      break;
    }
    if (decoded.status != RecordStatus::ok) damaged(decoded.problem);
    const auto* ballot = std::get_if<BallotRecord>(&decoded.record);
    const auto* verdict = std::get_if<VerdictRecord>(&decoded.record);
    if (last && verdict == nullptr) damaged("a member or ballot among verdicts");
    if ((ballot != nullptr && ballot->round != expected) ||
        (verdict != nullptr && (verdict->round != expected || expected == last)))
      damaged(
          fmt::format("round {} is not what comes next", ballot != nullptr ? ballot->round : verdict->round));
    if (ballot != nullptr) {
      voted.insert(ballot->ballot.worker);
      continue;
    }
    content.bytes = reader.offset();
    if (verdict == nullptr) continue;
    if (!std::ranges::includes(voted, verdict->counted))
      damaged("a verdict counts a ballot that is not there");
    voted.clear();
    content.places.push_back(place_of(verdict->verdict, reader.offset() - verdict->verdict.size()));
  }
  if (last && first + content.places.size() != *last)
    throw DataError(fmt::format("'{}' is cut short: it ends before round {}; put it back from a backup", name,
                                first + content.places.size()));
  return content;
}

}  // namespace signvote
