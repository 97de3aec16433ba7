// The engine of a cluster: R ranks host the M >= R workers and one shard of the tally each.
//
// A round is two exchanges. All-to-all: every rank sends every other one message with its workers'
// ballots on that rank's coordinates. Each rank decides its shard. All-gather: every rank sends every
// other its slice of the verdict, with the shard's totals. A message has one wire header (see
// docs/clusters.md), whatever the number of slices in it. So a rank sends and receives about N/8 bytes
// a worker it hosts and N/8 of verdicts, and keeps 2MN/R bytes of counters.
//
// Only the thread that made the engine talks to MPI.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/mpi/mpi_session.h"
#include "signvote/parallel.h"

namespace signvote {

struct MpiEngineOptions {
  TallyOptions tally;  // of the whole model: begin is 0
  std::uint64_t run_id = 0;
  std::filesystem::path folder;                    // where to save; the same for all ranks
  std::vector<std::vector<std::uint32_t>> hosted;  // by rank
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
  void open(const RunState& fresh, const std::function<void(const RunState&)>& saved,
            const std::function<void(const Outcome&)>& decided) override;
  void start() override;
  void send_ballot(std::uint32_t worker, const SignVector* ballot, const BatchLoss& loss) override;
  Outcome receive_verdict(bool stop) override;
  void save(RunState state) override;
  void finish() override {}
  const Tally& tally() const override;
  std::vector<std::int64_t> total_half_errors() const override;
  Traffic traffic() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace signvote
