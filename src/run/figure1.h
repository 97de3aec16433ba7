// The paper's Figure 1: batch sizes x methods x seeds, each cell a run of its own under OUT/cells.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "learn/dataset.h"
#include "run/config.h"
#include "run/table_plans.h"
#include "run/train.h"

namespace signvote {

struct Figure1Options {
  TrainConfig base;                    // what all cells share; method, batches, seed and out are set per cell
  std::vector<std::string> panels;     // batch sizes, e.g. "14x4,904"
  std::vector<NamedSettings> methods;  // the first is the one that the others' leads are over
  unsigned seeds = 1;                  // from base.seed on
  std::filesystem::path out;
};

/// Runs all cells and writes figure1.png, figure1.svg, figure1.csv and summary.json. Returns false if it was
/// stopped on the way. Throws ConfigError if OUT has cells of other settings.
bool reproduce_figure1(const Figure1Options& options, const Dataset& dataset, const TrainHooks& hooks);

/// The final table for people, from the content of summary.json.
std::string format_figure1(const nlohmann::json& summary);

}  // namespace signvote
