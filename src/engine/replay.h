// How a journal's record brings the tally on: the same for a server that comes back and for whoever
// looks into the journal later.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "journal/journal.h"
#include "signvote/ballot_box.h"

namespace signvote {

class Replay {
 public:
  /// `tally` and its `box` are where the journal's snapshot was, and must outlive this. `owners` are the
  /// names that the slots belonged to then. `folder` is for errors.
  Replay(Tally& tally, BallotBox& box, std::vector<std::string> owners, std::filesystem::path folder);

  /// A slot that changes hands forgets what it learnt of the one before. A round is decided again; that
  /// its verdict comes out again proves that the counters are those of before, and if it does not, this
  /// throws DataError. Returns the round, or null if the event was none.
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
