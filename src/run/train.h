// A training run: its folder, and the loop of rounds.
//
//   DIR/config.toml      everything needed to repeat the run
//   DIR/metrics.jsonl    one row per evaluation
//   DIR/shard-*.bin      the tally's other shards, with --engine mpi
//   DIR/checkpoint.bin   where it stands; removed by nobody, so that a finished run can be extended
//   DIR/model.pt         the model, once finished (and on Ctrl-C)
//   DIR/summary.json     the result, once finished
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "engine/mpi/mpi_engine.h"
#include "learn/dataset.h"
#include "report/progress.h"
#include "run/config.h"

namespace signvote {

/// What a run tells its caller while it works. Any of them may be left out.
struct TrainHooks {
  std::function<void()> started;                       // all is in place, the first round begins
  std::function<void(const ProgressState&)> progress;  // after every round
  std::function<void(const std::string&)> warn;        // one line
  const std::atomic<bool>* stop = nullptr;             // set: save after this round and return
  std::uint64_t pause_after = UINT64_MAX;              // save and return after so many rounds
};

struct TrainResult {
  bool finished = false;  // false: stopped or paused; resume goes on
  std::uint64_t rounds = 0;
};

/// Throws ConfigError if a worker's batch is larger than what it holds of the data.
void check_batches(const TrainConfig& config, const Dataset& dataset);

/// Makes the folder of a new run. Throws ConfigError if it holds a run already.
void create_run(const TrainConfig& config);

/// Runs, or goes on with, the run in folder config.out, which create_run or fork_run made. Until it
/// has started it changes nothing there. With a session, this process is one of its ranks; if the run
/// cannot start on some rank, it throws on all.
TrainResult train(const TrainConfig& config, const Dataset& dataset, const TrainHooks& hooks,
                  const MpiSession* session = nullptr);

/// Makes a new run `config` that stands where the run in `from` stands, for methods that are the same
/// until then: mv and it within the initial phase. The new tally starts unlearnt, so `config` must be mv.
void fork_run(const std::filesystem::path& from, const TrainConfig& config);

}  // namespace signvote
