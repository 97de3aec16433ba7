// The server of a run whose workers come and go: a central tally, its journal, and the sessions with
// the workers. It computes no gradients.
//
//   STATE/config.toml, metrics.jsonl, model.pt, summary.json   as of any run
//   STATE/journal/                                             see journal.h
//   STATE/server.json                                          the ports it listens on
//
// A round is open until every worker has voted or abstained, or, with a quorum, until that many have voted
// and the deadline has passed. Then: decide; append ballots and verdict to the journal, synced; only now does
// the verdict leave; step; test and take a snapshot where they are due. So whatever a worker has seen, a
// server that is killed and started again knows too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "engine/grpc/vote_server.h"
#include "learn/dataset.h"
#include "run/config.h"
#include "run/train.h"

namespace signvote {

struct ServerOptions {
  TrainConfig config;                          // its `out` is the state folder
  VoteServerOptions listen;                    // largest_message is filled in
  std::optional<std::filesystem::path> allow;  // see allow_list.h
  std::uint32_t quorum = 0;                    // 0: all workers
  double deadline_seconds = 0;                 // 0: a round closes as soon as the quorum has voted
  std::uint64_t keep = UINT64_MAX;             // verdicts
  std::optional<int> metrics_port;             // 0: any
};

/// Runs, or goes on with, the run in the state folder. hooks.warn is the log: what it is told is worth
/// a line with the time. Throws ConfigError if the folder holds a run of other settings.
TrainResult serve(const ServerOptions& options, const Dataset& dataset, const TrainHooks& hooks);

}  // namespace signvote
