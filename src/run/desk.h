// Where the workers' sessions and the server's rounds meet. Sessions come from gRPC's threads: they
// join, leave ballots, and fetch what there is for them. The server's own thread waits for answers,
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
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/grpc/vote_server.h"
#include "journal/journal.h"
#include "report/metrics.h"
#include "run/allow_list.h"
#include "run/config.h"
#include "signvote/ballot_box.h"

namespace signvote {

class VoteDesk : public Desk {
 public:
  /// All references must outlive this. `owners` are the names that the slots belong to so far, empty
  /// where nobody has come yet. The open round is that of `box`. `log` may be called from any thread.
  VoteDesk(const TrainConfig& config, std::uint64_t parameters, BallotBox& box, const Journal& journal,
           AllowList allowed, std::vector<std::string> owners, Metrics& metrics,
           std::function<void(const std::string&)> log);

  /// How to make sessions ask again, once there is a server. Called when there is news for one of them
  /// that the server's own thread does not know of.
  void wake_with(std::function<void()> wake);

  // For sessions.
  std::variant<std::unique_ptr<Visit>, Refusal> join(const std::string& name, const std::string& peer,
                                                     const v1::Hello& hello) override;
  void refused(const std::string& peer, const Refusal& refusal) override;

  // For the server, one thread.

  /// Waits until there are so many votes in the open round, or every worker has voted or abstained: true.
  /// False after so many seconds, or as soon as there are newcomers.
  bool wait_for_votes(std::uint32_t votes, double seconds);
  /// Who has not answered in the open round.
  std::vector<std::string> missing();
  /// How many may join.
  std::size_t allowed();

  /// Who waits to take over a slot that has not answered in this round. They get nothing until confirmed;
  /// before that the server writes down whose the slot is.
  std::vector<MemberRecord> newcomers();
  void confirm(const MemberRecord& member);

  /// Decides the round, with the ballots that have come; those that come from now on are late.
  RoundRecord close_round();

  /// The verdict of the round closed last is on the disk: it may leave, and the next round is open.
  void publish(const std::vector<std::byte>& verdict);

  /// No more rounds: sessions end when they have fetched everything, also those of newcomers.
  void finish();
  /// Waits until every worker that ever came, and may still come, knows the end; those that are away have so
  /// many seconds.
  void wait_until_all_know(double seconds);

  /// Reads the allow-list again if it was changed; those no longer on it are sent away. True: changed.
  bool reload_allow_list();

 private:
  class Seat;
  friend class Seat;
  struct Slot {
    std::string owner;    // confirmed
    std::string visitor;  // of the session that holds the slot now; empty: none
    std::uint64_t visit = 0;
    bool answering = false;  // a ballot is being looked at
    bool knows_the_end = false;
    std::optional<CastBallot> answer;
    std::optional<std::uint64_t> grumbled;  // in which open round the log was told of a ballot not counted
  };

  std::optional<Refusal> answer(const Seat& seat, const v1::Ballot& ballot);
  void done_answering(Slot& slot, std::optional<CastBallot> cast);
  bool is_of_this_run(const v1::Hello& hello) const;
  std::optional<Refusal> unwanted(const Seat& seat) const;
  Visit::Next next(Seat& seat);
  void leave(const Seat& seat);

  const TrainConfig& config_;
  std::string config_text_;
  std::uint64_t parameters_;
  BallotBox& box_;
  const Journal& journal_;
  Metrics& metrics_;
  std::function<void(const std::string&)> log_;

  std::mutex mutex_;  // all below; a ballot is looked at and a round decided without it
  std::condition_variable changed_;
  AllowList allowed_;
  std::vector<Slot> slots_;
  std::uint64_t visits_ = 0;
  std::uint64_t published_;  // rounds whose verdict may leave: the open round's number
  bool closing_ = false;     // the open round is decided and being written down
  bool finished_ = false;
  std::function<void()> wake_;
  grpc::ByteBuffer newest_;  // the verdict of round published_ - 1, as it is sent; empty after a restart
};

}  // namespace signvote
