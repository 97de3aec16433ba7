// A whole run of ballots, written beforehand, for tests that play it to several tallies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "signvote/tally.h"
#include "tally/votes.h"

namespace signvote::testing {

/// A run of ballots: workers of different error rates, some abstentions, some absences.
struct Script {
  TallyOptions options;
  std::vector<std::vector<SignVector>> ballots;               // [round][worker]
  std::vector<std::vector<std::optional<SignView>>> present;  // nullopt: absent
};

inline Script make_script(std::uint64_t seed, std::size_t n, std::uint32_t workers, std::size_t rounds,
                          double absent, std::uint32_t initial_rounds) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  Script script;
  script.options = {Method::it, workers, 0, n, initial_rounds, 10};
  std::vector<double> error(workers);
  for (double& p : error) p = uniform(random);
  for (std::size_t t = 0; t < rounds; ++t) {
    const SignVector truth = random_signs(n, 0.1, random);
    std::vector<SignVector> round;
    for (std::uint32_t m = 0; m < workers; ++m) round.push_back(through_channel(truth, error[m], random));
    script.ballots.push_back(std::move(round));
  }
  for (const auto& round : script.ballots) {
    script.present.push_back(all_present(round));
    for (auto& ballot : script.present.back())
      if (uniform(random) < absent) ballot.reset();
  }
  return script;
}

inline std::vector<SignVector> verdicts(Tally& tally, const Script& script, std::size_t first = 0) {
  std::vector<SignVector> result(script.present.size() - first);
  for (std::size_t t = first; t < script.present.size(); ++t)
    tally.decide(script.present[t], result[t - first]);
  return result;
}

}  // namespace signvote::testing
