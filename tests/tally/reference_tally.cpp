#include "tally/reference_tally.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace signvote {

ReferenceTally::ReferenceTally(const TallyOptions& options)
    : options_(options),
      rounds_of_(options.workers),
      errors_(options.workers, std::vector<double>(options.end - options.begin)),
      pooled_(options.workers),
      sums_(options.end - options.begin) {}

double ReferenceTally::error_rate(std::uint32_t worker, std::size_t coordinate) const {
  if (rounds_of_[worker] == 0) return 0.5;
  if (options_.method != Method::shrink) return errors_[worker][coordinate] / rounds_of_[worker];
  const double kappa = options_.prior_rounds;
  const double prior = std::round(2 * kappa * pooled_[worker] * 128) / 128 / 2;  // 1/128 of a half-error
  return (errors_[worker][coordinate] + prior) / (rounds_of_[worker] + kappa);
}

void ReferenceTally::pool() {
  for (std::uint32_t m = 0; m < options_.workers; ++m)
    if (rounds_of_[m] > 0 && !sums_.empty())
      pooled_[m] = std::accumulate(errors_[m].begin(), errors_[m].end(), 0.0) /
                   (rounds_of_[m] * static_cast<double>(sums_.size()));
}

double ReferenceTally::llr(std::uint32_t worker, std::size_t coordinate) const {
  const double p = error_rate(worker, coordinate);
  if (p <= 0) return options_.clip;
  if (p >= 1) return -options_.clip;
  return std::clamp(std::log((1 - p) / p), -options_.clip, options_.clip);
}

void ReferenceTally::decide(std::span<const std::optional<SignView>> ballots, SignVector& verdict) {
  const std::size_t size = sums_.size();
  verdict.reset(size);
  std::size_t present = 0;
  std::size_t mature = 0;
  for (std::uint32_t m = 0; m < options_.workers; ++m) {
    if (!ballots[m]) continue;
    ++present;
    if (rounds_of_[m] >= options_.initial_rounds) ++mature;
  }
  if (options_.method != Method::mv && present > 0 && 2 * mature >= present) weighted_ = true;
  const bool weigh = weighted_ && mature > 0;
  for (std::size_t n = 0; n < size; ++n) {
    sums_[n] = 0;
    for (std::uint32_t m = 0; m < options_.workers; ++m) {
      if (!ballots[m]) continue;
      if (!weigh)
        sums_[n] += (*ballots[m])[n];
      else if (rounds_of_[m] >= options_.initial_rounds)
        sums_[n] += llr(m, n) * (*ballots[m])[n];
    }
    verdict.set(n, sums_[n] > 0 ? 1 : sums_[n] < 0 ? -1 : 0);
  }
  for (std::uint32_t m = 0; m < options_.workers; ++m) {
    if (!ballots[m]) continue;
    for (std::size_t n = 0; n < size; ++n) errors_[m][n] += (1 - (*ballots[m])[n] * verdict[n]) / 2.0;
    rounds_of_[m] += 1;
  }
  pool();
}

void ReferenceTally::decide_as(std::span<const std::optional<SignView>> ballots, SignVector& own,
                               const SignVector& verdict) {
  decide(ballots, own);
  for (std::uint32_t m = 0; m < options_.workers; ++m) {
    if (!ballots[m]) continue;
    for (std::size_t n = 0; n < own.size(); ++n)
      errors_[m][n] += (*ballots[m])[n] * (own[n] - verdict[n]) / 2.0;
  }
  pool();
}

}  // namespace signvote
