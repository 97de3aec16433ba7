// Ballots for tests: random ones, and those of workers with a known error rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "signvote/sign_vector.h"

namespace signvote::testing {

inline SignVector random_signs(std::size_t n, double abstain, std::mt19937_64& random) {
  SignVector signs(n);
  std::uniform_real_distribution<double> uniform;
  for (std::size_t i = 0; i < n; ++i)
    signs.set(i, uniform(random) < abstain ? 0 : (random() & 1) != 0 ? 1 : -1);
  return signs;
}

/// `truth` as seen through a binary symmetric channel with crossover probability p.
inline SignVector through_channel(const SignVector& truth, double p, std::mt19937_64& random) {
  SignVector seen = truth;
  std::uniform_real_distribution<double> uniform;
  for (std::size_t i = 0; i < truth.size(); ++i)
    if (uniform(random) < p) seen.set(i, -truth[i]);
  return seen;
}

/// What Tally::decide takes, if no worker is absent.
inline std::vector<std::optional<SignView>> all_present(const std::vector<SignVector>& ballots) {
  return {ballots.begin(), ballots.end()};
}

}  // namespace signvote::testing
