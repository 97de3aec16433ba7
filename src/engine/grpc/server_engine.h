// The engine of a run whose workers come and go: a central tally, its journal, and gRPC sessions with the
// workers over TLS. It hosts no worker.
//
//   FOLDER/journal/     see journal.h
//   FOLDER/server.json  the ports it listens on; it goes when every worker knows that the run is finished
//   FOLDER/audit.log    see audit_log.h
//
// A round is open until every worker has voted or abstained or, with a quorum, until that many have voted
// and the deadline has passed. Ballots are written to the journal as they come. Then the server decides,
// writes the verdict to the disk, and only then sends it. So a server that is killed and started again
// knows everything that a worker has seen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/grpc/vote_server.h"
#include "journal/journal.h"
#include "report/attendance.h"
#include "report/metrics.h"

namespace signvote {

inline constexpr const char* kServerFile = "server.json";

struct ServerEngineOptions {
  TallyOptions tally;  // of the whole model: begin is 0
  std::uint64_t run_id = 0;
  std::string settings;  // config.toml, for the workers
  std::uint64_t rounds = 0;
  StepOfRound step_of;
  std::filesystem::path folder;
  VoteServerOptions listen;     // largest_message and workers are filled in
  std::optional<TlsFiles> tls;  // if given, listen's keys and authority, now and when they change
  std::optional<std::filesystem::path> allow;   // see allow_list.h
  std::uint32_t quorum = 0;                     // 0: all workers
  double deadline_seconds = 0;                  // 0: a round closes as soon as the quorum has voted
  std::vector<std::uint32_t> batches;           // by worker: what each must use; empty: what it likes
  std::uint32_t most_samples = UINT32_MAX;      // of a batch
  bool takes_tests = false;                     // by workers, because the run cannot test its model
  std::uint64_t keep = UINT64_MAX;              // verdicts to keep, at least
  std::optional<int> metrics_port;              // 0: any
  Attendance* attendance = nullptr;             // told who comes, answers and goes, if it is given
  std::function<bool()> stop_requested;         // called again and again while waiting
  std::function<void(const std::string&)> log;  // one line each; from any thread
};

/// Declares what a server counts.
void declare_server_metrics(Metrics& metrics);

/// Adds the seconds that a phase of the server's work has taken.
void add_phase_seconds(Metrics& metrics, const std::string& phase, double seconds);

/// receive_verdict returns no verdict if a stop was asked for while it waited. If a snapshot cannot be
/// saved, this is logged and the run goes on, because the journal has everything that is in it. `metrics`
/// must outlive the engine. Throws ConfigError if the allow-list makes no sense.
std::unique_ptr<Engine> make_server_engine(ServerEngineOptions options, Metrics& metrics,
                                           ParallelFor parallel_for = {});

}  // namespace signvote
