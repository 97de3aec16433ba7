#include "journal/verdict_log.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "journal/record.h"
#include "signvote/error.h"

namespace signvote {

Place place_of(const RoundRecord& record, std::uint64_t offset) {
  return {.offset = offset + verdict_offset(record),
          .bytes = record.verdict.size(),
          .checksum = XXH3_64bits(record.verdict.data(), record.verdict.size())};
}

LogContent check_log(const InputFile& file, std::uint64_t first, std::optional<std::uint64_t> last) {
  LogContent content;
  LogReader reader(file, file.bytes());
  const std::string name = file.path().string();
  while (true) {
    const std::uint64_t expected = first + content.places.size();
    content.bytes = reader.offset();
    const auto damaged = [&](const std::string& problem) {
      const std::string way_out =
          last ? ""
               : fmt::format(", or give up the rounds from there on: truncate -s {} '{}'", content.bytes,
                             name);
      throw DataError(fmt::format("'{}' is damaged at byte {}, in round {}: {}; put it back from a backup{}",
                                  name, content.bytes, expected, problem, way_out));
    };
    const DecodedRecord decoded = reader.next();
    if (decoded.status == RecordStatus::end) break;
    if (decoded.status == RecordStatus::torn && !last) {
      content.torn = decoded.problem;
      break;
    }
    if (decoded.status != RecordStatus::ok) damaged(decoded.problem);
    if (const auto* round = std::get_if<RoundRecord>(&decoded.record)) {
      if (round->round != expected || expected == last)
        damaged(fmt::format("round {} is not what comes next", round->round));
      content.places.push_back(place_of(*round, content.bytes));
    } else if (last) {
      damaged("a member among verdicts");
    }
  }
  if (last && first + content.places.size() != *last)
    throw DataError(fmt::format("'{}' is cut short: it ends before round {}; put it back from a backup", name,
                                first + content.places.size()));
  return content;
}

}  // namespace signvote
