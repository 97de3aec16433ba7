#include "run/server.h"

#include <mutex>
#include <utility>

#include "run/schedule.h"

namespace signvote {

TrainResult serve(const TrainConfig& config, ServerEngineOptions options, bool own_batches,
                  const MakeTrainee& make, const TrainHooks& hooks) {
  std::mutex log_mutex;
  Metrics metrics;
  declare_server_metrics(metrics);
  TrainHooks own = hooks;
  own.warn = [&](const std::string& line) {
    const std::lock_guard lock(log_mutex);
    if (hooks.warn) hooks.warn(line);
  };
  own.progress = [&](const ProgressState& state) {
    if (state.test_accuracy) metrics.set("signvote_test_accuracy", *state.test_accuracy);
    if (hooks.progress) hooks.progress(state);
  };
  own.spent = [&](const char* phase, double seconds) { add_phase_seconds(metrics, phase, seconds); };

  options.run_id = config.run_id();
  options.settings = settings_for_workers(config);
  if (!own_batches) options.batches = config.batch_sizes();
  options.rounds = config.rounds;
  options.takes_tests = !config.has_network();
  options.step_of = Schedule(config);
  options.folder = config.out;
  options.log = own.warn;
  options.stop_requested = [&hooks] { return hooks.stop_requested(); };
  EnginePlan plan;
  plan.make = [&](const TallyOptions& tally, const ParallelFor& parallel) {
    options.tally = tally;
    return make_server_engine(std::move(options), metrics, parallel);
  };
  return train(config, make, own, plan);
}

}  // namespace signvote
