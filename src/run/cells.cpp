#include "run/cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/checkpoint.h"
#include "run/network.h"
#include "run/run_files.h"
#include "run/schedule.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Throws ConfigError if the folder of a cell has other settings. Only other rounds can be asked of it.
void check_same(const Cell& cell) {
  const TrainConfig there = load_run(cell.folder());
  std::optional<std::string> change = first_change(there, cell.config);
  if (!change && there.eval_every != cell.config.eval_every)
    change = fmt::format("eval_every = {}, not {}", there.eval_every, cell.config.eval_every);
  if (change)
    throw ConfigError(
        fmt::format("'{}' was run with {}; choose another --out", cell.folder().string(), *change));
  check_rounds(there, cell.config, cell.rounds_done());
}

/// Whether `mv` is the same run as `it` until the initial phase is over.
bool are_twins(const Cell& it, const Cell& mv) {
  if (it.config.method != "it" || mv.config.method != "mv") return false;
  return std::ranges::all_of(train_options(), [&](const TrainOption& option) {
    return option.name == "method" || option.name == "out" || option.get(it.config) == option.get(mv.config);
  });
}

std::uint64_t initial_phase(const Cell& cell) {
  return std::min<std::uint64_t>(*cell.config.initial_rounds, cell.config.rounds);
}

bool run_until(const Cell& cell, std::uint64_t rounds, const Dataset& dataset, TrainHooks hooks) {
  const bool pauses = rounds < cell.config.rounds;  // else it goes on until it has a summary
  if (pauses && cell.rounds_done() >= rounds) return true;
  if (pauses) hooks.pause_after = rounds;
  return train(cell.config, dataset, hooks, local_engine(cell.config)).rounds == rounds;
}

}  // namespace

bool Cell::exists() const { return fs::exists(folder() / "config.toml"); }

bool Cell::finished() const {
  const json summary = read_summary(folder());
  return !summary.is_null() && summary.value("rounds", std::uint64_t{0}) == config.rounds;
}

std::uint64_t Cell::rounds_done() const { return finished() ? config.rounds : checkpoint_rounds(folder()); }

void check_cells(const std::vector<Cell>& cells, const Dataset& dataset) {
  if (dataset.classes == 0)
    throw ConfigError("the data set has no classes, so that there are no accuracies to show");
  for (const Cell& cell : cells) {
    if (cell.exists()) check_same(cell);
    check_batches(cell.config, dataset);
  }
  if (!cells.empty()) check_network(cells.front().config, dataset);
}

bool run_cells(const std::vector<Cell>& cells, const Dataset& dataset, const TrainHooks& hooks,
               const std::function<void()>& ended) {
  const auto twin_of = [&cells](const Cell& it) {
    return std::ranges::find_if(cells, [&it](const Cell& mv) { return are_twins(it, mv); });
  };
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    if (cell.finished()) continue;
    TrainHooks own;
    own.warn = hooks.warn;
    own.stop = hooks.stop;
    std::uint64_t later = 0;
    for (std::size_t j = i + 1; j < cells.size(); ++j)
      later += cells[j].config.rounds - std::min(cells[j].rounds_done(), cells[j].config.rounds);
    own.progress = [&, later](ProgressState state) {
      state.label =
          fmt::format("{}/{} {} {} seed {}", i + 1, cells.size(), cell.row, cell.method, cell.config.seed);
      state.later = later;
      if (hooks.progress) hooks.progress(state);
    };
    if (!cell.exists()) create_run(cell.config);
    const auto twin = twin_of(cell);
    if (twin != cells.end() && !twin->exists() && cell.rounds_done() <= initial_phase(cell)) {
      if (!run_until(cell, initial_phase(cell), dataset, own)) return false;
      fork_run(cell.folder(), twin->config);
    }
    if (!run_until(cell, cell.config.rounds, dataset, own)) return false;
    if (ended) ended();
  }
  return true;
}

std::vector<CellTest> tests_of(const Cell& cell) {
  std::vector<CellTest> tests;
  for (const MetricsRow& row : read_metrics(cell.folder()))
    if (row.test_accuracy) tests.push_back({row.round, *row.test_accuracy});
  return tests;
}

}  // namespace signvote
