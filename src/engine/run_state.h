// The state of a run between two rounds: what a checkpoint or a snapshot holds, in one struct for all
// engines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "journal/state_file.h"

namespace signvote {

/// What was sent so far, headers included: every ballot and verdict as one message, however an engine moves
/// it, so that all engines count the same.
struct Traffic {
  std::uint64_t ballots = 0;
  std::uint64_t ballot_bytes = 0;
  std::uint64_t verdicts = 0;  // each goes to every worker but is counted once
  std::uint64_t verdict_bytes = 0;
  std::uint64_t rank_bytes = 0;  // that ranks of MPI have sent to each other

  bool operator==(const Traffic&) const = default;

  Traffic& operator+=(const Traffic& other) {
    ballots += other.ballots;
    ballot_bytes += other.ballot_bytes;
    verdicts += other.verdicts;
    verdict_bytes += other.verdict_bytes;
    rank_bytes += other.rank_bytes;
    return *this;
  }
};

struct RunProgress {
  std::uint64_t rounds = 0;     // finished
  double seconds = 0;           // all seconds spent
  double training_seconds = 0;  // the same without evaluating and saving
  Traffic traffic;
  std::vector<std::uint64_t> votes;    // by worker: the rounds that it voted in
  std::vector<std::uint64_t> samples;  // by worker: for which it computed gradients
};

struct RunState {
  std::uint64_t run_id = 0;  // a hash of the settings it was made with
  RunProgress progress;
  std::vector<std::string> shards;  // files with the rest of the tally, if it is spread over processes
  std::vector<std::string> owners;  // the names that a server's slots belong to; empty: nobody yet
  std::vector<std::vector<float>> memories;  // of the workers hosted here, by worker; see Learner::memories
  std::vector<float> parameters;
  std::vector<std::byte> tally;  // as Tally::snapshot gives it
};

/// Converts to and from the file format of state_file.h. from_state throws DataError, naming `file`, if the
/// notes cannot be read.
State to_state(RunState state);
RunState from_state(State state, const std::string& file);

}  // namespace signvote
