// A training run: its folder, and the loop of rounds, which is the same page for every engine.
//
//   DIR/config.toml      everything needed to repeat the run
//   DIR/metrics.jsonl    one row per evaluation
//   DIR/checkpoint.bin   where it stands; removed by nobody, so that a finished run can be extended
//   DIR/shard-*.bin      the tally's other shards, with --engine mpi
//   DIR/journal/         instead of these two, with a server
//   DIR/model.pt         the model, once finished (and on Ctrl-C)
//   DIR/summary.json     the result, once finished
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/group.h"
#include "learn/dataset.h"
#include "report/progress.h"
#include "run/config.h"

namespace signvote {

/// What a run tells its caller while it works. Any of them may be left out.
struct TrainHooks {
  std::function<void()> started;                       // all is in place, the first round begins
  std::function<void(const ProgressState&)> progress;  // after every round
  std::function<void(const std::string&)> warn;        // one line; from any thread
  std::function<void(const char* phase, double seconds)> spent;  // where the time went
  const std::atomic<bool>* stop = nullptr;                       // set: save after this round and return
  std::uint64_t pause_after = UINT64_MAX;                        // save and return after so many rounds

  bool stop_requested() const { return stop != nullptr && *stop; }
};

struct TrainResult {
  bool finished = false;  // false: stopped or paused; resume goes on
  std::uint64_t rounds = 0;
};

/// How this process takes part in a run.
struct EnginePlan {
  std::vector<std::uint32_t> hosted;  // the workers whose gradients it computes
  std::function<std::unique_ptr<Engine>(const TallyOptions& whole_model, const ParallelFor& parallel)> make;
};
/// All workers and the tally in this process.
EnginePlan local_engine(const TrainConfig& config);

/// Throws ConfigError if a worker's batch is larger than what it holds of the data.
void check_batches(const TrainConfig& config, const Dataset& dataset);

/// Makes the folder of a new run. Throws ConfigError if it holds a run already.
void create_run(const TrainConfig& config);

/// Runs, or goes on with, the run in folder config.out, which create_run or fork_run made. Until it
/// has started it changes nothing there. With many processes, if the run cannot start in one of them, it
/// throws in all.
TrainResult train(const TrainConfig& config, const Dataset& dataset, const TrainHooks& hooks,
                  const EnginePlan& plan, const Group& group = {});

/// Makes a new run `config` that stands where the run in `from` stands, for methods that are the same
/// until then: mv and it within the initial phase. The new tally starts unlearnt, so `config` must be mv.
void fork_run(const std::filesystem::path& from, const TrainConfig& config);

}  // namespace signvote
