// The judge: the tally straight from the equations, one coordinate after the other, in floating
// point. Slow and plain on purpose; tests and benchmarks compare everything else with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "signvote/sign_vector.h"
#include "signvote/tally.h"

namespace signvote {

class ReferenceTally {
 public:
  explicit ReferenceTally(const TallyOptions& options);

  /// As Tally::decide.
  void decide(std::span<const SignVector* const> ballots, SignVector& verdict);

  /// The weighted sum of equation 3 at each coordinate in the last round, in nats (votes, where the
  /// vote was plain).
  const std::vector<double>& sums() const { return sums_; }

  /// Counts `verdict` as the last round's instead of this tally's own, so that a test can follow
  /// another tally through rounds in which the two decided a near-tie differently.
  void decide_as(std::span<const SignVector* const> ballots, SignVector& own, const SignVector& verdict);

  /// ln((1 - p) / p), clipped. The estimated p of equation 4; 1/2 before the first round.
  double llr(std::uint32_t worker, std::size_t coordinate) const;
  double error_rate(std::uint32_t worker, std::size_t coordinate) const;

 private:
  TallyOptions options_;
  bool weighted_ = false;
  std::vector<double> rounds_of_;
  std::vector<std::vector<double>> errors_;  // of equation 4's numerator; an abstention is half of one
  std::vector<double> sums_;
};

}  // namespace signvote
