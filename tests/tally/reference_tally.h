// The judge of the tests: a tally that computes the equations as they are written, one coordinate after
// the other, in floating point. It is slow and plain on purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "signvote/sign_vector.h"
#include "signvote/tally.h"

namespace signvote {

class ReferenceTally {
 public:
  explicit ReferenceTally(const TallyOptions& options);

  /// As Tally::decide.
  void decide(std::span<const std::optional<SignView>> ballots, SignVector& verdict);

  /// The weighted sum of equation 3 at each coordinate in the last round: in nats, or in votes if the
  /// round was a plain majority.
  const std::vector<double>& sums() const { return sums_; }

  /// Decides a round, with its own verdict in `own`, but learns from `verdict`. So a test can follow
  /// another tally through rounds in which the two decide a near-tie differently.
  void decide_as(std::span<const std::optional<SignView>> ballots, SignVector& own,
                 const SignVector& verdict);

  /// ln((1 - p) / p), clipped; and the p of the method, of equation 4 or shrunk, which is 1/2 before the
  /// first round.
  double llr(std::uint32_t worker, std::size_t coordinate) const;
  double error_rate(std::uint32_t worker, std::size_t coordinate) const;

 private:
  void pool();

  TallyOptions options_;
  bool weighted_ = false;
  std::vector<double> rounds_of_;
  std::vector<std::vector<double>> errors_;  // equation 4's numerator; an abstention is half an error
  std::vector<double> pooled_;               // Method::shrink's p_m by worker, after the last round
  std::vector<double> sums_;
};

}  // namespace signvote
