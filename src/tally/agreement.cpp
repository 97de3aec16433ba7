#include "tally/agreement.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace signvote {
namespace {

constexpr std::int64_t kRound = 65536;
constexpr int kSweeps = 50;  // of the first fit
constexpr int kFits = 20;    // after it, each with sharper eyes for pairs that do not fit
constexpr double kSharper = 0.7;

std::size_t pair_at(std::size_t i, std::size_t j) {
  return 2 * (std::max(i, j) * (std::max(i, j) - 1) / 2 + std::min(i, j));
}

/// number * share / kShare, rounded toward zero, without a product that might not fit.
std::int64_t part_of(std::int64_t number, std::int64_t share) {
  constexpr std::int64_t kWhole = Agreement::kShare;
  return number / kWhole * share + number % kWhole * share / kWhole;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Brings q nearer to the least squares of r_ij = q_i * q_j over all pairs, as heavy as `weights` says, one
/// q_i after the other.
void fit(const std::vector<double>& r, const std::vector<double>& weights, int sweeps, double most,
         std::vector<double>& q) {
  const std::size_t n = q.size();
  for (int sweep = 0; sweep < sweeps; ++sweep)
    for (std::size_t i = 0; i < n; ++i) {
      double above = 0;
      double below = 0;
      for (std::size_t j = 0; j < n; ++j) {
        if (i == j) continue;
        above += weights[i * n + j] * r[i * n + j] * q[j];
        below += weights[i * n + j] * q[j] * q[j];
      }
      q[i] = below > 0 ? std::clamp(above / below, -most, most) : 0;
    }
}

/// What a pair of workers usually agrees by, however few pairs agree by far more.
double usual_agreement(const std::vector<double>& r, std::size_t n) {
  std::vector<double> of_workers;
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> with_others;
    for (std::size_t j = 0; j < n; ++j)
      if (i != j) with_others.push_back(std::abs(r[i * n + j]));
    of_workers.push_back(median(std::move(with_others)));
  }
  return median(std::move(of_workers));
}

}  // namespace

Agreement::Agreement(std::uint32_t workers, std::int64_t forget)
    : workers_(workers), forget_(forget), state_(numbers(workers) + 1) {}

void Agreement::add(std::span<const std::int64_t> round) {
  assert(round.size() + 1 == state_.size());
  for (std::size_t i = 0; i < round.size(); ++i) state_[i] += round[i] - part_of(state_[i], forget_);
  state_.back() += kRound - part_of(state_.back(), forget_);
}

void Agreement::forget(std::uint32_t worker) {
  for (std::uint32_t other = 0; other < workers_; ++other)
    if (other != worker)
      std::fill_n(state_.begin() + static_cast<std::ptrdiff_t>(pair_at(worker, other)), 2, 0);
}

std::vector<double> Agreement::correctness(std::uint32_t prior_rounds) const {
  const std::size_t n = workers_;
  std::vector<double> q(n, 0.5);
  if (n < 3) return q;  // two witnesses cannot be told apart
  double both = 0;
  double agreement = 0;
  for (std::size_t i = 0; i + 2 < state_.size(); i += 2) {
    both += static_cast<double>(state_[i]);
    agreement += static_cast<double>(state_[i + 1]);
  }
  if (both == 0) return q;
  const double mean = agreement / both;
  const double pairs = static_cast<double>(n * (n - 1) / 2);
  const double rounds = static_cast<double>(state_.back()) / static_cast<double>(kRound);
  const double prior = prior_rounds * both / pairs / rounds;  // coordinates of a pair in so many rounds
  std::vector<double> r(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const auto* pair = &state_[pair_at(i, j)];
      r[i * n + j] = (static_cast<double>(pair[1]) + prior * mean) / (static_cast<double>(pair[0]) + prior);
    }
  // First no pair may agree by much more than is usual, so that colluders do not lead the fit. Then all pairs
  // count as they are, but the less the worse they fit: those of colluders least.
  const double most_at_first = 2 * usual_agreement(r, n);
  std::vector<double> cut = r;
  for (double& value : cut) value = std::clamp(value, -most_at_first, most_at_first);
  std::vector<double> weights(n * n, 1);
  fit(cut, weights, kSweeps, kMost, q);
  double tolerance = most_at_first;
  for (int k = 0; k < kFits; ++k) {
    std::vector<double> misfits;
    for (std::size_t i = 1; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j) misfits.push_back(std::abs(r[i * n + j] - q[i] * q[j]));
    tolerance = std::max({kSharper * tolerance, 3 * median(misfits), 1e-9});
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        const double misfit = (r[i * n + j] - q[i] * q[j]) / tolerance;
        const double distrust = 1 + misfit * misfit;
        weights[i * n + j] = 1 / (distrust * distrust);
      }
    fit(r, weights, 2, kMost, q);
  }
  double sum = 0;
  for (const double value : q) sum += value;
  if (sum < 0)
    for (double& value : q) value = -value;
  return q;
}

double Agreement::weight(double correctness, double clip) {
  // 2 (q + q^3/3 + q^5/5 + ...), as far as it counts. ln(x) of the mantissa would be shorter, but no
  // library's logarithm is the same everywhere.
  const double square = correctness * correctness;
  double power = 2 * correctness;
  double sum = 0;
  for (int k = 1; std::abs(power) > 1e-12 * k; k += 2) {
    sum += power / k;
    power *= square;
  }
  return std::clamp(sum, -clip, clip);
}

}  // namespace signvote
