#include "run/curves.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace signvote {
namespace {

/// By round, the values of all seeds; a round that one lacks is left out.
Curve curve(const std::string& method, const std::map<std::uint64_t, std::vector<double>>& values,
            std::size_t seeds) {
  Curve result{method, {}};
  for (const auto& [round, all] : values) {
    if (all.size() != seeds) continue;
    const auto [low, high] = std::ranges::minmax(all);
    result.points.push_back(
        {round, std::reduce(all.begin(), all.end()) / static_cast<double>(all.size()), low, high});
  }
  return result;
}

}  // namespace

Curve curve_of(const std::string& method, const std::vector<const Cell*>& seeds) {
  std::map<std::uint64_t, std::vector<double>> accuracies;
  for (const Cell* cell : seeds)
    for (const CellTest& test : tests_of(*cell)) accuracies[test.round].push_back(test.accuracy);
  return curve(method, accuracies, seeds.size());
}

Curve lead_of(const std::string& method, const std::vector<const Cell*>& seeds,
              const std::vector<const Cell*>& others) {
  std::map<std::uint64_t, std::vector<double>> leads;
  for (const Cell* cell : seeds) {
    const auto other = std::ranges::find_if(
        others, [cell](const Cell* candidate) { return candidate->config.seed == cell->config.seed; });
    if (other == others.end()) continue;
    std::map<std::uint64_t, double> theirs;
    for (const CellTest& test : tests_of(**other)) theirs[test.round] = test.accuracy;
    for (const CellTest& test : tests_of(*cell))
      if (theirs.contains(test.round)) leads[test.round].push_back(test.accuracy - theirs[test.round]);
  }
  return curve(method, leads, seeds.size());
}

std::vector<double> last_accuracies(const std::vector<const Cell*>& seeds) {
  std::vector<double> result;
  for (const Cell* cell : seeds) {
    const std::vector<CellTest> tests = tests_of(*cell);
    if (!tests.empty()) result.push_back(tests.back().accuracy);
  }
  return result;
}

}  // namespace signvote
