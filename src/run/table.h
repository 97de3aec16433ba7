// The tables of docs/results.md: rows (settings) x methods x seeds, each cell a run of its own under
// OUT/cells.
#pragma once

#include <filesystem>

#include "learn/dataset.h"
#include "run/config.h"
#include "run/table_plans.h"
#include "run/train.h"

namespace signvote {

struct TableOptions {
  TablePlan plan;
  TrainConfig base;    // what all cells share; `out` is set per cell
  unsigned seeds = 1;  // from base.seed on
  std::filesystem::path out;
};

/// Runs all cells. Writes table.md, table.csv (a line for each cell), curves.csv, curves.png and curves.svg,
/// anew after each cell, so that what is there can be read while others run. Returns false if it was stopped
/// on the way. Throws ConfigError if OUT has cells of other settings.
bool reproduce_table(const TableOptions& options, const Dataset& dataset, const TrainHooks& hooks);

}  // namespace signvote
