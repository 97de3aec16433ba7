// The engine of a cluster: R ranks host the M >= R workers and one shard of the tally each.
//
// A round is two exchanges. First every rank sends every other rank one message with its workers'
// ballots on that rank's coordinates, and each rank decides its shard. Then every rank sends every other
// rank its slice of the verdict. So a rank sends about N/8 bytes for each worker that it hosts and N/8
// bytes of verdicts, and keeps 2MN/R bytes of counters. docs/clusters.md has the messages.
//
// Threads: send_ballot may be called from any number of threads, for different workers at the same time; it
// encodes the ballot in the calling thread and does not use MPI. All other members may be called only by
// the thread that made the engine, because MPI was initialized for one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/mpi/mpi_session.h"
#include "signvote/parallel.h"

namespace signvote {

struct MpiEngineOptions {
  TallyOptions tally;  // of the whole model: begin is 0
  std::uint64_t run_id = 0;
  std::filesystem::path folder;                    // where to save; all ranks must see the same folder
  std::vector<std::vector<std::uint32_t>> hosted;  // by rank: its workers, at least one, ascending
  /// While a wait for other ranks is longer than `patience`, stop_requested is called again and again. Once
  /// it returns true, stop_while_waiting is called, because a rank may have died; that happens only once.
  std::function<void()> stop_while_waiting;
  std::function<bool()> stop_requested;
  std::chrono::duration<double> patience{1.0};
};

/// The tally covers this rank's shard and is not restored before `open`. `session` must outlive the engine.
std::unique_ptr<Engine> make_mpi_engine(const MpiSession& session, MpiEngineOptions options,
                                        ParallelFor parallel_for = {});

}  // namespace signvote
