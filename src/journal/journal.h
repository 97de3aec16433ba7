// The durable record of a run with a central tally: its start, every round's verdict, and the ballots since
// the last snapshot. x_{t+1} = x_t - delta_t * U_t, stepped one by one, so the verdicts hold all past
// models at about a bit per parameter per round. The snapshot and the ballots after it restore the
// tally. docs/journal_format.md has the bytes.
//
//   DIR/base-R.bin        the parameters before the oldest verdict that is kept
//   DIR/verdicts-A-B.log  the verdicts of rounds [A, B), whose ballots are dropped
//   DIR/snapshot-S.bin    parameters, tally and notes after round S - 1
//   DIR/rounds-S.log      what came since: members, ballots as they came, and verdicts
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "journal/state_file.h"
#include "signvote/sign_vector.h"

namespace signvote {

/// Slot `worker` of the tally belongs to `name` from here on. It may be replayed onto a snapshot that
/// already includes it (one taken again with no round in between), so replaying it twice must not matter.
struct MemberRecord {
  std::uint32_t worker = 0;
  std::string name;
};

struct CastBallot {
  std::uint32_t worker = 0;
  std::uint32_t batch = 0;         // samples
  double loss = 0;                 // the sum over them
  std::vector<std::byte> message;  // as in wire.h; empty: the worker had no usable gradient
};

/// A decided round, as replay reports it.
struct RoundRecord {
  std::uint64_t round = 0;
  std::vector<CastBallot> ballots;  // those that counted, ascending by worker
  std::vector<std::byte> verdict;   // as in wire.h
};

/// The step of each round, counted from 0. It follows from the run's settings and is not in the journal.
using StepOfRound = std::function<Step(std::uint64_t round)>;

using JournalEvent = std::variant<MemberRecord, RoundRecord>;

class Journal {
 public:
  /// Makes a journal that starts with `start`, which only its owner may read, because ballots tell something
  /// about the workers' data. Makes the folder if necessary; throws ConfigError if it holds a journal
  /// already. After a crash there is either a whole journal or none, and leftovers are overwritten.
  static void create(const std::filesystem::path& folder, const State& start);
  static bool exists(const std::filesystem::path& folder);

  /// Whether opening the journal may change it.
  enum class Mode { append, read_only };

  /// Opens a journal and checks all of it. What a crash left behind is finished or removed: ballots that no
  /// verdict counts and an incomplete record at the end are cut off (read_only: ignored). `report` gets one
  /// line about an incomplete record. Throws DataError that names file and place if anything else is wrong.
  Journal(const std::filesystem::path& folder, Mode mode,
          const std::function<void(const std::string&)>& report);
  ~Journal();

  /// The last snapshot, and what was recorded after it, in order. Only for the thread that appends.
  State snapshot() const;
  void replay(const std::function<void(const JournalEvent&)>& visit) const;

  /// These append a member, a ballot and a verdict. A member and a verdict are durable (written and
  /// fdatasynced) when this returns. A ballot is written at once and becomes durable with its round's
  /// verdict; without one it is lost when the Journal is closed. A verdict counts the last ballot of each
  /// worker in `counted`. If the disk is full or fails, these throw DataError: what they were given is not
  /// recorded, and what was durable stays. After a failed sync the journal must be opened again before it
  /// takes more. REQUIRES: Mode::append; the round is rounds(); `counted` ascends, and each of these
  /// workers' ballots was appended to this Journal in this round.
  void append(const MemberRecord& member);
  void append(std::uint64_t round, const CastBallot& ballot);
  void append(std::uint64_t round, std::span<const std::uint32_t> counted,
              std::span<const std::byte> verdict);

  /// The snapshot is durable when this returns. The ballots of the rounds before it are then dropped; those
  /// of the open round stay. At least the last `keep` verdicts are kept (whole files only; UINT64_MAX:
  /// all). If older ones are dropped, the base is moved on by their steps. If it throws DataError, no
  /// verdict is lost and the journal goes on, from the old snapshot or from the new one; also if no file
  /// descriptor was left.
  /// REQUIRES: Mode::append; snapshot.round == rounds(); as many parameters as at the start.
  void take_snapshot(const State& snapshot, std::uint64_t keep, const StepOfRound& step_of);

  /// The number of recorded rounds, which is the next round's number; and the oldest round whose verdict is
  /// kept. Both may be called from any thread.
  std::uint64_t rounds() const;
  std::uint64_t oldest() const;

  /// A round's verdict, as in wire.h; nullopt if it is not recorded, or no longer. May be called from any
  /// thread at any time. Throws DataError.
  std::optional<std::vector<std::byte>> verdict(std::uint64_t round) const;

  /// The last snapshot's parameters or, once something in them was found damaged, those of the base, from
  /// which the verdicts lead on as well. May be called from any thread.
  std::shared_ptr<const SnapshotReader> open_snapshot() const;

  /// The parameters after `rounds` rounds. Must not be called while a snapshot is taken. Throws ConfigError
  /// if `rounds` is not within [oldest(), rounds()].
  std::vector<float> model(std::uint64_t rounds, const StepOfRound& step_of) const;

  /// The journal's files, for `signvote journal DIR list`.
  struct File {
    std::string name;
    std::string kind;  // base, verdicts, snapshot, rounds
    std::uint64_t first = 0;
    std::uint64_t last = 0;  // rounds [first, last)
    std::uint64_t bytes = 0;
  };
  std::vector<File> files() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace signvote
