// What runs of several seeds show together.
#pragma once

#include <string>
#include <vector>

#include "report/figure.h"
#include "run/cells.h"

namespace signvote {

/// The mean over cells of one kind with different seeds, and their spread, at the tests that all have done.
Curve curve_of(const std::string& method, const std::vector<const Cell*>& seeds);

/// How far each cell is ahead of the one with the same seed among `others`.
Curve lead_of(const std::string& method, const std::vector<const Cell*>& seeds,
              const std::vector<const Cell*>& others);

/// Of each cell that has been tested.
std::vector<double> last_accuracies(const std::vector<const Cell*>& seeds);

}  // namespace signvote
