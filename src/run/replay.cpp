#include "run/replay.h"

#include <fmt/format.h>

#include <span>

#include "run/progress_json.h"
#include "signvote/error.h"
#include "signvote/sign_vector.h"
#include "signvote/wire.h"

namespace signvote {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SnapshotNotes, run_id, progress, owners)

namespace {

/// The signs, not the bytes: another version of zstd may write them another way.
bool same_verdict(std::span<const std::byte> ours, std::span<const std::byte> recorded) {
  MessageHeader header;
  SignVector now, then;
  std::string problem;
  return decode_header(ours, header, problem) && decode(ours, header, now, problem) &&
         decode(recorded, header, then, problem) && now == then;
}

}  // namespace

std::string write_notes(const SnapshotNotes& notes) { return nlohmann::json(notes).dump(); }

SnapshotNotes read_notes(const JournalSnapshot& snapshot) {
  try {
    return nlohmann::json::parse(snapshot.notes).get<SnapshotNotes>();
  } catch (const nlohmann::json::exception&) {
    throw DataError(
        fmt::format("the notes in the journal's snapshot of round {} cannot be read; was it written "
                    "by another version of signvote?",
                    snapshot.round));
  }
}

void set_owner(const MemberRecord& member, Tally& tally, std::vector<std::string>& owners) {
  if (member.worker >= owners.size())
    throw DataError(fmt::format("the journal gives '{}' the place of worker {} of {}", member.name,
                                member.worker, owners.size()));
  std::string& owner = owners[member.worker];
  if (owner == member.name) return;  // replayed onto a snapshot that has seen it
  if (!owner.empty()) tally.forget(member.worker);
  owner = member.name;
}

void decide_again(const RoundRecord& record, BallotBox& box, const std::filesystem::path& folder) {
  std::string problem;
  for (const CastBallot& ballot : record.ballots)
    if (!ballot.message.empty() && !box.cast(ballot.worker, ballot.message, problem))
      throw DataError(fmt::format("'{}': round {} holds a {}", folder.string(), record.round + 1, problem));
  if (!same_verdict(box.close(), record.verdict))
    throw DataError(fmt::format("'{}': the ballots of round {} do not give the verdict recorded with them",
                                folder.string(), record.round + 1));
}

}  // namespace signvote
