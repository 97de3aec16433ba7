// Where the workers' sessions and the server's rounds meet. Sessions are called by gRPC's threads: they
// join, leave ballots, and fetch what there is for them. The server's own thread waits for ballots, closes
// the round, and publishes its verdict.
//
// A session fetches at its own pace: first the snapshot from its file, then the verdicts from the journal.
// The newest verdict is in memory, where all sessions share it. So a slow worker costs no memory.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/grpc/allow_list.h"
#include "engine/grpc/audit_log.h"
#include "engine/grpc/refusal_log.h"
#include "engine/grpc/vote_server.h"
#include "journal/journal.h"
#include "report/attendance.h"
#include "report/metrics.h"
#include "signvote/ballot_box.h"

namespace signvote {

struct VoteDeskOptions {
  std::uint64_t run_id = 0;
  std::string settings;          // config.toml, for the workers
  std::uint64_t parameters = 0;  // N
  std::uint64_t rounds = 0;      // of the whole run
  StepOfRound step_of;
  std::vector<std::uint32_t> batches;       // by worker: what each must use; empty: what it likes
  std::uint32_t most_samples = UINT32_MAX;  // of a batch
  bool takes_tests = false;                 // by workers of the model
  Attendance* attendance = nullptr;         // told who comes, answers and goes, if it is given
};

class VoteDesk : public Desk {
 public:
  /// All references must outlive this. `owners` are the names that the slots belong to so far, empty if
  /// nobody has come yet. The open round is that of `box`. `log` may be called from any thread.
  VoteDesk(VoteDeskOptions options, BallotBox& box, const Journal& journal, AllowList allowed,
           const std::vector<std::string>& owners, Metrics& metrics, AuditLog& audit,
           std::function<void(const std::string&)> log);

  /// `wake` makes all sessions ask again; called when one has news that the server's thread does not know
  /// of.
  void wake_with(std::function<void()> wake);

  // The following are for sessions, from any thread.
  std::optional<Refusal> admit(const Identity& who) override;
  std::variant<std::unique_ptr<Session>, Refusal> join(const Identity& who, const std::string& peer,
                                                       const v1::Hello& hello) override;
  void refused(const std::string& peer, const Refusal& refusal) override;

  // The following are for the server's thread.

  /// Waits for `votes` votes, or until every worker has answered: true. False after `seconds`, or when
  /// there are ballots to take or newcomers.
  bool wait_for_votes(std::uint32_t votes, double seconds);
  /// The ballots that have come since the last call, for the journal.
  std::vector<CastBallot> take_ballots();
  /// The names of those that have not answered in the open round.
  std::vector<std::string> missing();

  /// Those that wait to take over a slot that has not answered in this round. They get nothing until they
  /// are confirmed; before that the server writes to the journal whose the slot is.
  std::vector<MemberRecord> newcomers();
  /// Gives the slot to the newcomer. Returns true if it belonged to somebody else until now.
  bool confirm(const MemberRecord& member);
  /// The owner's name of every slot; empty if it has none.
  std::vector<std::string> owners();

  /// Ballots that come from now on are late. Waits for those that are being checked. After this,
  /// take_ballots returns the last ballots of the round.
  void close_round();
  /// Who answered in the closed round (ascending), how many of them voted, the losses by worker, and what
  /// workers found when they tested the model before it.
  struct ClosedRound {
    std::vector<std::uint32_t> answered;
    std::uint32_t voted = 0;
    std::vector<BatchLoss> losses;
    std::vector<ReportedTest> tests;
  };
  ClosedRound closed_round();
  /// Compares the workers' models before the closed round with the server's. Who has another is sent away
  /// and gets the snapshot when it comes again.
  void compare_models(std::uint64_t digest);
  /// To be called when the verdict of the closed round is on the disk. Lets the sessions fetch it and opens
  /// the next round.
  void publish(std::span<const std::byte> verdict);

  /// There are no more rounds. All sessions, also those of newcomers, end when they have fetched
  /// everything.
  void finish();
  /// Waits until every worker that ever came, and is still allowed, knows of the end. Waits at most
  /// `seconds` for those that are away; false if some never came.
  bool wait_until_all_know(double seconds);

  /// Reads the allow-list again and sends away those that are no longer on it, or have another key there.
  /// Returns true if it changed.
  bool reload_allow_list();
  /// True if the last change of the list took a name off it, or gave it another slot or key.
  bool shut_somebody_out() const { return shut_out_; }
  /// To be called now and then: tells the log of refusals that it left out.
  void report_refusals() { refusals_.look(Clock::now()); }
  /// How many may join.
  std::size_t allowed() const { return allow_list_.workers().size(); }

 private:
  class WorkerAtDesk;
  friend class WorkerAtDesk;
  struct Answer {
    bool voted = false;  // otherwise it abstained
    BatchLoss loss;
    std::optional<std::uint64_t> digest;
    std::optional<CastBallot> to_take;
    std::optional<ReportedTest> test;
  };
  struct Slot {
    std::string owner;                         // confirmed
    std::uint64_t session = 0;                 // the number of the session that holds the slot now; 0: none
    std::string session_name;                  // the name that this session joined with
    std::deque<Clock::time_point> handshakes;  // the last ones
    bool checking = false;                     // a ballot is being checked
    bool heard_finish = false;
    std::optional<Answer> answer;
    std::uint32_t batch = 0;                  // of its last vote
    std::uint64_t right_model = 0;            // the last round in which its model was seen to be the server's
    bool wrong_model = false;                 // the session must end, and the next one gets the snapshot
    std::optional<std::uint64_t> complained;  // the round of the last log line on a ballot not counted
    bool waits_for_owner() const { return session != 0 && owner != session_name && !answer && !checking; }
  };

  std::optional<Refusal> answer(const WorkerAtDesk& session, v1::Ballot& ballot);
  std::optional<Refusal> nonsense(const WorkerAtDesk& session, const v1::Ballot& ballot) const;
  std::optional<Refusal> not_now(const WorkerAtDesk& session, const v1::Ballot& ballot, bool& ignored);
  std::optional<Refusal> nonsense_test(const WorkerAtDesk& session, const v1::Ballot& ballot) const;
  void done_checking(Slot& slot, std::optional<Answer> answer);
  bool is_of_this_run(const v1::Hello& hello) const;
  /// Whose slot this name has; null if it is not on the list.
  const AllowedWorker* entry_of(const std::string& name) const;
  bool owns(const std::string& name, std::uint32_t slot) const;
  std::optional<Refusal> not_on_list(const Identity& who) const;
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
  AuditLog& audit_;
  Attendance own_attendance_;  // if nobody else wants it
  Attendance& attendance_;
  std::function<void(const std::string&)> log_;
  RefusalLog refusals_;
  AllowList allow_list_;   // only the server's thread uses it after the start
  bool shut_out_ = false;  // likewise

  // Guards all below. While it is held no file is read, no ballot decoded, no round decided.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, AllowedWorker> allowed_;  // as the list was last read
  std::vector<Slot> slots_;
  std::uint64_t sessions_ = 0;  // so far
  std::uint64_t published_;     // rounds whose verdict may be sent: the open round's number
  bool closing_ = false;        // the open round takes no more ballots
  bool finished_ = false;
  std::function<void()> wake_;
  grpc::ByteBuffer newest_;  // the verdict of round published_ - 1, as it is sent; empty after a restart
};

}  // namespace signvote
