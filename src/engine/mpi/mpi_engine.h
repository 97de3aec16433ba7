// The engine of a cluster: R ranks host the M >= R workers and one shard of the tally each.
//
// A round is two exchanges. All-to-all: every rank sends every other one message with its workers'
// ballots on that rank's coordinates. Each rank decides its shard. All-gather: every rank sends every
// other its slice of the verdict, with the shard's totals. A message has one wire header (see
// docs/engines.md), whatever the number of slices in it. So a rank sends and receives about N/8 bytes
// a worker it hosts and N/8 of verdicts, and keeps 2MN/R bytes of counters.
//
// Only the thread that made the engine talks to MPI.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "signvote/parallel.h"

namespace signvote {

/// MPI for as long as it lives. One a process.
class MpiSession {
 public:
  /// Throws EngineError if MPI cannot give MPI_THREAD_FUNNELED.
  MpiSession();
  /// Finalizes; while an exception unwinds it does not (that would wait for the others): see abort.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Whether this process has, or had, one.
  static bool begun();

  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return ranks_; }

  /// Every rank says what is wrong with it (nothing: an empty text). Returns the text of the lowest
  /// rank that has one, on all ranks: so an error that all of them see is printed once.
  std::string first_problem(const std::string& mine) const;

  /// Rank 0's text, on all ranks.
  std::string of_rank0(const std::string& mine) const { return broadcast(mine, 0); }

  /// Ends the whole job with this exit code.
  [[noreturn]] void abort(int code) const;

 private:
  std::string broadcast(const std::string& mine, std::uint32_t from) const;

  std::uint32_t rank_ = 0;
  std::uint32_t ranks_ = 1;
};

/// Which worker lives where: the largest batches first, each to the rank that has least so far.
/// Returns every rank's workers, ascending. REQUIRES: 1 <= ranks <= batches.size().
std::vector<std::vector<std::uint32_t>> host_workers(std::span<const std::uint32_t> batches,
                                                     std::uint32_t ranks);

struct MpiEngineOptions {
  TallyOptions tally;  // of the whole model: begin is 0
  std::uint64_t run_id = 0;
  std::vector<std::vector<std::uint32_t>> hosted;  // by rank; see host_workers
  /// Told once if a stop is asked for and other ranks are waited for, for longer than `patience` (one of them
  /// may have died).
  std::function<void()> stop_while_waiting;
  std::function<bool()> stop_requested;  // asked at every look of a wait that is as long
  std::chrono::duration<double> patience{1.0};
};

class MpiEngine : public Engine {
 public:
  /// The tally is that of this rank's shard, not restored. `session` must outlive the engine.
  MpiEngine(const MpiSession& session, MpiEngineOptions options, ParallelFor parallel_for = {});
  ~MpiEngine() override;

  std::span<const std::uint32_t> hosted() const override;
  bool leads() const override;
  void send_ballot(std::uint32_t worker, const SignVector* ballot, double loss) override;
  Outcome receive_verdict(bool stop) override;
  Tally& tally() override;
  std::vector<std::int64_t> total_half_errors() const override;
  Traffic traffic() const override;
  void wait_for_all() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace signvote
