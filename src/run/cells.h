// A grid of runs, each in a folder of its own. Finished ones are kept, so that an interrupted grid goes on
// where it stopped, and more seeds or rounds cost only what is new.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "learn/dataset.h"
#include "run/config.h"
#include "run/train.h"

namespace signvote {

struct Cell {
  std::string row;     // what its settings are called, e.g. "mode 4"
  std::string method;  // and its method
  TrainConfig config;  // resolved

  std::filesystem::path folder() const { return config.out; }
  bool exists() const;
  bool finished() const;
  std::uint64_t rounds_done() const;
};

/// Throws ConfigError if a cell cannot be run, or if its folder holds one with other settings. To be called
/// before any is run, because a run may take hours.
void check_cells(const std::vector<Cell>& cells, const Dataset& dataset);

/// Runs all cells to their ends, in this order; `ended` is called after each. Returns false if it was
/// stopped on the way. Of `hooks` only progress, warn and stop are used.
///
/// Until their initial phase is over an `it` cell and the `mv` cell with otherwise equal settings are the
/// same run, so it is run once if the `it` cell comes first.
bool run_cells(const std::vector<Cell>& cells, const Dataset& dataset, const TrainHooks& hooks,
               const std::function<void()>& ended = {});

/// A row of a cell's metrics.jsonl.
struct CellTest {
  std::uint64_t round = 0;
  double accuracy = 0;
};
std::vector<CellTest> tests_of(const Cell& cell);

}  // namespace signvote
