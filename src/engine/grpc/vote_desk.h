// Where the workers' sessions and the server's rounds meet. Sessions come from gRPC's threads: they
// join, leave ballots, and fetch what there is for them. The server's own thread waits for ballots,
// closes the round, and publishes its verdict.
//
// A session fetches at its own pace: first the snapshot, from its file, then verdicts, from the journal,
// and the newest from memory, where all sessions share it. So a slow worker costs no memory.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/grpc/allow_list.h"
#include "engine/grpc/vote_server.h"
#include "journal/journal.h"
#include "report/metrics.h"
#include "signvote/ballot_box.h"

namespace signvote {

struct VoteDeskOptions {
  std::uint64_t run_id = 0;
  std::string settings;          // config.toml, for the workers
  std::uint64_t parameters = 0;  // N
  std::uint64_t rounds = 0;      // of the whole run
  float step = 0;                // delta
};

class VoteDesk : public Desk {
 public:
  /// All references must outlive this. `owners` are the names that the slots belong to so far, empty
  /// where nobody has come yet. The open round is that of `box`. `log` may be called from any thread.
  VoteDesk(VoteDeskOptions options, BallotBox& box, const Journal& journal, AllowList allowed,
           const std::vector<std::string>& owners, Metrics& metrics,
           std::function<void(const std::string&)> log);

  /// How to make sessions ask again, once there is a server. Called when there is news for one of them
  /// that the server's own thread does not know of.
  void wake_with(std::function<void()> wake);

  // For sessions, from any thread.
  std::variant<std::unique_ptr<Session>, Refusal> join(const std::string& name, const std::string& peer,
                                                       const v1::Hello& hello) override;
  void refused(const std::string& peer, const Refusal& refusal) override;

  // For the server, one thread.

  /// Waits until there are so many votes in the open round, or every worker has voted or abstained: true.
  /// False after so many seconds, or as soon as there are ballots to take or newcomers.
  bool wait_for_votes(std::uint32_t votes, double seconds);
  /// The ballots that have come since the last call, to be written down.
  std::vector<CastBallot> take_ballots();
  /// Who has not answered in the open round.
  std::vector<std::string> missing();

  /// Who waits to take over a slot that has not answered in this round. They get nothing until confirmed;
  /// before that the server writes down whose the slot is.
  std::vector<MemberRecord> newcomers();
  /// True if the slot was somebody else's until now.
  bool confirm(const MemberRecord& member);
  /// Of all slots; empty: nobody's.
  std::vector<std::string> owners();

  /// Ballots that come from now on are late. Waits for those that are being looked at. After this
  /// take_ballots has the last of the round.
  void close_round();
  /// Who answered in the closed round, and who of them voted, ascending; and what they said, by worker.
  struct ClosedRound {
    std::vector<std::uint32_t> answered;
    std::uint32_t voted = 0;
    std::vector<BatchLoss> losses;
  };
  ClosedRound closed_round();
  /// The verdict of the closed round is on the disk: it may leave, and the next round is open.
  void publish(std::span<const std::byte> verdict);

  /// No more rounds: sessions end when they have fetched everything, also those of newcomers.
  void finish();
  /// Waits until every worker that ever came, and may still come, knows the end; those that are away
  /// have so many seconds.
  void wait_until_all_know(double seconds);

  /// Reads the allow-list again if it was changed; those no longer on it are sent away. True: changed.
  bool reload_allow_list();
  /// How many may join.
  std::size_t allowed() const { return allow_list_.workers().size(); }

 private:
  class WorkerAtDesk;
  friend class WorkerAtDesk;
  struct Answer {
    bool voted = false;  // else it abstains
    BatchLoss loss;
    std::optional<CastBallot> to_take;
  };
  struct Slot {
    std::string owner;           // confirmed
    std::uint64_t session = 0;   // the number of the one that holds the slot now; 0: none
    std::string session_name;    // whose that is
    bool checking = false;       // a ballot is being looked at
    bool heard_finish = false;
    std::optional<Answer> answer;
    std::optional<std::uint64_t> complained;  // the round in which the log was told of a ballot not counted
    bool waits_for_owner() const { return session != 0 && owner != session_name && !answer && !checking; }
  };

  std::optional<Refusal> answer(const WorkerAtDesk& session, v1::Ballot& ballot);
  std::optional<Refusal> not_now(const WorkerAtDesk& session, const v1::Ballot& ballot, bool& ignored);
  void done_checking(Slot& slot, std::optional<CastBallot> cast);
  bool is_of_this_run(const v1::Hello& hello) const;
  std::optional<std::uint32_t> slot_of(const std::string& name) const;
  std::optional<Refusal> unwanted(const WorkerAtDesk& session) const;
  Session::Next next(WorkerAtDesk& session);
  grpc::ByteBuffer welcome(const WorkerAtDesk& session) const;
  Session::Next next_chunk(WorkerAtDesk& session);
  Session::Next next_verdict(WorkerAtDesk& session, std::uint64_t open_round);
  void leave(const WorkerAtDesk& session);

  const VoteDeskOptions options_;
  BallotBox& box_;
  const Journal& journal_;
  Metrics& metrics_;
  std::function<void(const std::string&)> log_;
  AllowList allow_list_;  // the server's thread reads it again

  // For all below. No file is opened or read, no ballot looked at and no round decided under it.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::uint32_t> allowed_;  // as the list last said
  std::vector<Slot> slots_;
  std::uint64_t sessions_ = 0;  // so far
  std::uint64_t published_;     // rounds whose verdict may leave: the open round's number
  bool closing_ = false;        // the open round takes no more ballots
  bool finished_ = false;
  std::function<void()> wake_;
  grpc::ByteBuffer newest_;  // the verdict of round published_ - 1, as it is sent; empty after a restart
};

}  // namespace signvote
