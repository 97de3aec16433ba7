#include "run/tensorboard.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

namespace signvote {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

void Tensorboard::watch(TrainHooks& hooks) {
  hooks.started = [this, others = hooks.started] {
    start();
    if (others) others();
  };
  // Only those methods have worker_weights that have one weight for all coordinates.
  hooks.tested = [this, others = hooks.tested](const MetricsRow& row, const Tally& tally) {
    write(row, now(), tally.worker_weights());
    if (others) others(row, tally);
  };
}

void Tensorboard::start() {
  const std::filesystem::path folder = config_.out;
  log_.emplace(folder / "tensorboard");
  const std::vector<MetricsRow> rows = read_metrics(folder);
  // Times as if the run had not paused before it went on.
  for (const MetricsRow& row : rows) write(row, now() - (rows.back().seconds - row.seconds), {});
}

void Tensorboard::write(const MetricsRow& row, double wall_time, const std::vector<double>& weights) {
  std::vector<std::pair<std::string, double>> scalars;
  const auto add = [&scalars](const char* tag, const std::optional<double>& value) {
    if (value) scalars.emplace_back(tag, *value);
  };
  add("test/accuracy", row.test_accuracy);
  add("test/loss", row.test_loss);
  add("train/loss", row.train_loss);
  add("train/step", row.step);
  add("bits_per_parameter/up", row.bits_per_parameter_up);
  add("bits_per_parameter/down", row.bits_per_parameter_down);
  for (std::size_t m = 0; m < weights.size(); ++m)
    scalars.emplace_back(fmt::format("weight/worker {}", m), weights[m]);
  log_->add(row.round, wall_time, scalars);
}

}  // namespace signvote
