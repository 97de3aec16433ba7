// The durable record of a run with a central tally: where it started, every round's verdict, and the
// ballots since the last snapshot. x_t = x_0 - delta * (U_1 + ... + U_t), stepped one by one, so the
// verdicts are the model's whole history at about a bit per parameter per round; and snapshot +
// ballots bring the tally back to where it was. docs/journal_format.md has the bytes.
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

namespace signvote {

/// Slot `worker` of the tally belongs to `name` from here on. May be replayed onto a snapshot that has
/// seen it (one taken again with no round in between), so it must not matter when it comes twice.
struct MemberRecord {
  std::uint32_t worker = 0;
  std::string name;
};

struct CastBallot {
  std::uint32_t worker = 0;
  std::uint32_t batch = 0;         // samples
  double loss = 0;                 // sum over them
  std::vector<std::byte> message;  // as in wire.h; empty: the worker had no usable gradient
};

/// A decided round, as replay tells of it.
struct RoundRecord {
  std::uint64_t round = 0;
  std::vector<CastBallot> ballots;  // those that counted, ascending by worker
  std::vector<std::byte> verdict;   // as in wire.h
};

using JournalEvent = std::variant<MemberRecord, RoundRecord>;

class Journal {
 public:
  /// Makes a journal that starts with `start`, in a folder that holds none (ConfigError); makes the
  /// folder if need be. All or nothing: what a crash leaves behind does not exist, and is written over.
  static void create(const std::filesystem::path& folder, const State& start);
  static bool exists(const std::filesystem::path& folder);

  /// How much of it may be changed by opening it.
  enum class Mode { append, read_only };

  /// Opens a journal and checks all of it. What a crash left behind is finished or removed: ballots that
  /// no verdict counts and a torn end are cut off (read_only: only passed over), and `report` is told in
  /// one line of what is torn. Throws DataError that names file and place where anything else is wrong.
  Journal(const std::filesystem::path& folder, Mode mode,
          const std::function<void(const std::string&)>& report);
  ~Journal();

  /// The last snapshot, and in order what was recorded after it. By the thread that appends.
  State snapshot() const;
  void replay(const std::function<void(const JournalEvent&)>& visit) const;

  /// A ballot is written as it comes, and on the disk when its round's verdict is; it does not outlive
  /// the Journal without that. A member and a verdict are durable (written and fdatasynced) when this
  /// returns; a verdict counts the last ballot of each worker in `counted`. If the disk is full or fails,
  /// these throw DataError: what they were given is not there, and what was durable stays. Where a sync
  /// has failed, the journal takes no more until it is opened anew.
  /// REQUIRES: Mode::append; the round is rounds(); `counted` ascends, and each of these workers' ballots
  /// was appended to this Journal in this round.
  void append(const MemberRecord& member);
  void append(std::uint64_t round, const CastBallot& ballot);
  void append(std::uint64_t round, std::span<const std::uint32_t> counted,
              std::span<const std::byte> verdict);

  /// Durable when it returns; then ballots of the rounds before it are dropped, and those of the open
  /// round stay. Of the verdicts at least the last
  /// `keep` are kept (by whole files; UINT64_MAX: all); where older ones go, the base moves on, stepped
  /// with `delta`. If it throws DataError, no verdict is lost and the journal goes on, from the old
  /// snapshot or from the new one. REQUIRES: Mode::append; snapshot.round == rounds(); as many parameters
  /// as at the start.
  void take_snapshot(const State& snapshot, std::uint64_t keep, float delta);

  /// Rounds recorded: the next one's number. And the oldest whose verdict is there. Any thread.
  std::uint64_t rounds() const;
  std::uint64_t oldest() const;

  /// A round's verdict, as in wire.h. May be called from any thread at any time. Throws DataError.
  /// nullopt: not recorded, or no longer.
  std::optional<std::vector<std::byte>> verdict(std::uint64_t round) const;

  /// The last snapshot's parameters; any thread.
  std::shared_ptr<const SnapshotReader> open_snapshot() const;

  /// The parameters after `rounds` rounds; not while a snapshot is taken. Throws ConfigError if that is not
  /// within [oldest(), rounds()].
  std::vector<float> model(std::uint64_t rounds, float delta) const;

  /// What is in it, for people and for `signvote journal DIR list`.
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
