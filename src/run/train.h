// A training run: its folder and the loop of rounds, which is the same for every engine.
//
//   DIR/config.toml      everything needed to repeat the run
//   DIR/metrics.jsonl    one row per evaluation
//   DIR/checkpoint.bin   the saved state; stays at the end, so that a run can be extended
//   DIR/shard-*.bin      the tally's other shards, with --engine mpi
//   DIR/memory-*.bin     what each worker remembers, if it does
//   DIR/journal/         with a server, instead of the checkpoint and the shards
//   DIR/network.pt       a copy of the user's own model file, if the run trains one
//   DIR/parameters.*     a copy of the first parameters, if the run knows no network (.npy or .pt)
//   DIR/best.pt          the model of the best test so far
//   DIR/model.pt         the model, once finished (and on Ctrl-C); model.npy if the parameters were .npy
//   DIR/summary.json     the result, once finished
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/group.h"
#include "learn/dataset.h"
#include "report/progress.h"
#include "run/config.h"
#include "run/run_files.h"
#include "run/trainee.h"

namespace signvote {

/// A run between two rounds, as the process that leads sees it. Valid while the hook is called.
struct RunView {
  const RunProgress& progress;
  const Tally& tally;  // of this process's coordinates
  const Trainee& trainee;
  std::size_t parameters = 0;
  double train_loss = 0;  // the mean of the last round; NaN before this process's first
};

/// What a run tells its caller while it works. Each may be left empty.
struct TrainHooks {
  std::function<void()> started;                                // everything is ready, the first round begins
  std::function<void(const ProgressState&)> progress;           // after every round
  std::function<void(const MetricsRow&, const Tally&)> tested;  // after every row of metrics.jsonl
  std::function<void(const RunView&)> watch;     // before the first round, and after every round
  std::function<void(const std::string&)> warn;  // one line; from any thread
  std::function<void(const char* phase, double seconds)> spent;  // the seconds that a phase took
  const std::atomic<bool>* stop = nullptr;                       // if set: save after this round and return
  std::uint64_t pause_after = UINT64_MAX;                        // the same after so many rounds

  bool stop_requested() const { return stop != nullptr && *stop; }
};

struct TrainResult {
  bool finished = false;  // false: stopped or paused, and can be resumed
  std::uint64_t rounds = 0;
};

/// How this process takes part in a run.
struct EnginePlan {
  std::vector<std::uint32_t> hosted;  // the workers whose gradients it computes
  std::function<std::unique_ptr<Engine>(const TallyOptions& whole_model, const ParallelFor& parallel)> make;
};
/// The plan with all workers and the whole tally in this process.
EnginePlan local_engine(const TrainConfig& config);

/// Throws ConfigError if a worker's batch is larger than its share of the data.
void check_batches(const TrainConfig& config, const Dataset& dataset);

/// Makes the folder of a new run. Throws ConfigError if it holds a run already.
void create_run(const TrainConfig& config);

using MakeTrainee = std::function<std::unique_ptr<Trainee>()>;

/// Runs or continues the run in folder config.out, which create_run or fork_run made. Changes nothing there
/// until it has started. If it cannot start in one of several processes, it throws in all.
TrainResult train(const TrainConfig& config, const MakeTrainee& make, const TrainHooks& hooks,
                  const EnginePlan& plan, const Group& group = {});

/// The same for a network on a data set.
TrainResult train(const TrainConfig& config, const Dataset& dataset, const TrainHooks& hooks,
                  const EnginePlan& plan, const Group& group = {});

/// Makes a new run that continues from where `from` is. Only an mv run can continue from an it run, and
/// only from its initial phase, because until then they are the same run.
void fork_run(const std::filesystem::path& from, const TrainConfig& config);

}  // namespace signvote
