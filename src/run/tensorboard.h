// --tensorboard: the numbers of metrics.jsonl as event files in OUT/tensorboard.
#pragma once

#include <optional>

#include "report/event_log.h"
#include "run/config.h"
#include "run/run_files.h"
#include "run/train.h"

namespace signvote {

class Tensorboard {
 public:
  explicit Tensorboard(const TrainConfig& config) : config_(config) {}

  /// Hooks by which it hears of the run, besides what they do already. This must outlive them.
  void watch(TrainHooks& hooks);

 private:
  /// Writes those rows of metrics.jsonl that the event files lack: the run may have been without
  /// --tensorboard before. Rows that a crash has cut off, and that come again, are in the files already.
  void start();
  void write(const MetricsRow& row, double wall_time, const std::vector<double>& weights);

  const TrainConfig& config_;
  std::optional<EventLog> log_;
};

}  // namespace signvote
