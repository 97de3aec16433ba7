#include "engine/replay.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "signvote/error.h"
#include "signvote/wire.h"

namespace signvote {

Replay::Replay(Tally& tally, BallotBox& box, std::vector<std::string> owners, std::filesystem::path folder)
    : tally_(tally), box_(box), owners_(std::move(owners)), folder_(std::move(folder)) {
  if (owners_.size() != tally.options().workers)
    throw DataError(fmt::format("the snapshot in '{}' has {} workers where the run has {}", folder_.string(),
                                owners_.size(), tally.options().workers));
}

const RoundRecord* Replay::take(const JournalEvent& event) {
  if (const auto* member = std::get_if<MemberRecord>(&event)) {
    set_owner(*member);
    return nullptr;
  }
  const auto& record = std::get<RoundRecord>(event);
  decide_again(record);
  return &record;
}

void Replay::set_owner(const MemberRecord& member) {
  if (member.worker >= owners_.size())
    throw DataError(fmt::format("the journal gives '{}' the place of worker {} of {}", member.name,
                                member.worker, owners_.size()));
  std::string& owner = owners_[member.worker];
  if (owner == member.name) return;  // the snapshot was taken after this record
  if (!owner.empty()) tally_.forget(member.worker);
  owner = member.name;
}

void Replay::decide_again(const RoundRecord& record) {
  std::string problem;
  for (const CastBallot& ballot : record.ballots)
    if (!ballot.message.empty() && !box_.cast(ballot.worker, ballot.message, problem))
      throw DataError(fmt::format("'{}': round {} holds a {}", folder_.string(), record.round + 1, problem));
  box_.close();
  // The signs are compared and not the bytes, because another version of zstd may compress them otherwise.
  MessageHeader header;
  SignVector recorded;
  if (!decode_header(record.verdict, header, problem) ||
      !decode(record.verdict, {MessageKind::verdict, header.run_id, record.round, 0, tally_.size()}, recorded,
              problem) ||
      recorded != box_.verdict())
    throw DataError(fmt::format("'{}': the ballots of round {} do not give the verdict recorded with them",
                                folder_.string(), record.round + 1));
}

}  // namespace signvote
