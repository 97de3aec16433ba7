// Reads the folders of runs for a comparison. Changes nothing and may be used while they go on. Does not use
// torch.
#pragma once

#include <filesystem>
#include <vector>

#include "report/comparison.h"

namespace signvote {

/// Each folder is a run's, a server's --state, or the --out of signvote reproduce, of which it takes all
/// cells. Throws ConfigError or DataError that names the folder if it is none of these, or damaged.
Comparison compare_runs(const std::vector<std::filesystem::path>& folders);

}  // namespace signvote
