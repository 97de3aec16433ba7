// Replays a journal's records into a tally, for a server that starts again and for `journal verify`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "journal/journal.h"
#include "signvote/ballot_box.h"

namespace signvote {

class Replay {
 public:
  /// `tally` and its `box` must be restored from the journal's snapshot and must outlive this. `owners` are
  /// the names that the slots belonged to in the snapshot. `folder` is named in errors.
  Replay(Tally& tally, BallotBox& box, std::vector<std::string> owners, std::filesystem::path folder);

  /// Applies one event. If a slot gets a new owner, the tally forgets what it learnt about the old one. A
  /// round is decided again; throws DataError if the recorded verdict does not come out. Returns the round,
  /// or null for a member.
  const RoundRecord* take(const JournalEvent& event);

  const std::vector<std::string>& owners() const { return owners_; }

 private:
  void set_owner(const MemberRecord& member);
  void decide_again(const RoundRecord& record);

  Tally& tally_;
  BallotBox& box_;
  std::vector<std::string> owners_;
  std::filesystem::path folder_;
};

}  // namespace signvote
