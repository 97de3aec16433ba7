// The paper's Figure 1: batch modes x methods x seeds, each cell a run of its own under OUT/cells. Finished
// cells are kept. So an interrupted figure continues where it stopped, and more seeds or rounds cost only
// what is new.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "learn/dataset.h"
#include "run/config.h"
#include "run/train.h"

namespace signvote {

struct Figure1Options {
  TrainConfig base;  // what all cells share; method, batches, seed and out are set per cell
  std::vector<int> batch_modes = {1, 2, 3, 4};
  unsigned seeds = 1;  // 0 .. seeds - 1
  std::filesystem::path out;
};

/// Runs all cells and writes figure1.png, figure1.svg, figure1.csv and summary.json. `hooks` see the cells
/// as one run: progress counts the rounds of the whole figure. Returns false if it was stopped on the way.
/// Throws ConfigError if OUT has cells of other settings.
bool reproduce_figure1(const Figure1Options& options, const Dataset& dataset, const TrainHooks& hooks);

/// The final table for people, from the content of summary.json.
std::string format_figure1(const nlohmann::json& summary);

}  // namespace signvote
