#include "tally/agreement.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace signvote {
namespace {

constexpr std::int64_t kRound = 65536;
constexpr int kSweeps = 50;

std::size_t pair_at(std::size_t i, std::size_t j) {
  return 2 * (std::max(i, j) * (std::max(i, j) - 1) / 2 + std::min(i, j));
}

/// number * share / kShare, rounded toward zero, without a product that might not fit.
std::int64_t part_of(std::int64_t number, std::int64_t share) {
  constexpr std::int64_t kWhole = Agreement::kShare;
  return number / kWhole * share + number % kWhole * share / kWhole;
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
  // The least squares of r_ij = q_i * q_j over all pairs, one q_i after the other.
  for (int sweep = 0; sweep < kSweeps; ++sweep)
    for (std::size_t i = 0; i < n; ++i) {
      double above = 0;
      double below = 0;
      for (std::size_t j = 0; j < n; ++j) {
        if (i == j) continue;
        above += r[i * n + j] * q[j];
        below += q[j] * q[j];
      }
      q[i] = below > 0 ? std::clamp(above / below, -kMost, kMost) : 0;
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
