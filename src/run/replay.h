// What the server notes in a snapshot besides parameters and tally, and how a record of its journal brings
// the tally on: the same for a server that comes back and for who looks into the journal later.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "journal/journal.h"
#include "run/run_progress.h"
#include "signvote/ballot_box.h"

namespace signvote {

struct SnapshotNotes {
  std::uint64_t run_id = 0;
  RunProgress progress;
  std::vector<std::string> owners;  // of the tally's slots; empty: nobody yet
};

std::string write_notes(const SnapshotNotes& notes);
/// Throws DataError.
SnapshotNotes read_notes(const JournalSnapshot& snapshot);

/// A slot that changes hands forgets what it learnt of the one before.
void set_owner(const MemberRecord& member, Tally& tally, std::vector<std::string>& owners);

/// Decides a recorded round anew. That its verdict comes out again proves that the counters are the ones
/// of before; if it does not, throws DataError. `folder` is for that.
void decide_again(const RoundRecord& record, BallotBox& box, const std::filesystem::path& folder);

}  // namespace signvote
