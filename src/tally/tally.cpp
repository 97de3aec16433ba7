#include "signvote/tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/kernels.h"
#include "kernels/weight.h"
#include "signvote/error.h"
#include "tally/agreement.h"
#include "tally/limits.h"

namespace signvote {
namespace {

/// Words (of 64 coordinates) that one task decides: 15 workers' counts for them fit the L2 cache.
constexpr std::size_t kTaskWords = 128;

/// Up to so many workers are compared on all coordinates.
constexpr std::size_t kComparedWhole = 16;

/// What the magnitudes of the workers' weights add up to; rounded, still less than 32,768.
constexpr double kWeightSum = 32000;

bool is_weight(double weight) { return std::isfinite(weight); }

kernels::Planes planes(SignView signs) { return {signs.present().data(), signs.negative().data()}; }

}  // namespace

Tally::Tally(const TallyOptions& options, ParallelFor parallel_for)
    : options_(options), parallel_for_(std::move(parallel_for)) {
  if (options.begin > options.end)
    throw ConfigError(fmt::format("a tally's range [{}, {}) runs backwards", options.begin, options.end));
  if (!(options.clip >= kMinClip && options.clip <= kMaxClip))
    throw ConfigError(
        fmt::format("clip is {}; it must be between {} and {}", options.clip, kMinClip, kMaxClip));
  if (options.initial_rounds == 0 || options.initial_rounds > kFullRounds / 2)
    throw ConfigError(fmt::format("initial-rounds is {}; it must be between 1 and {}", options.initial_rounds,
                                  kFullRounds / 2));
  if (options.prior_rounds == 0 || options.prior_rounds > kMostPriorRounds)
    throw ConfigError(fmt::format("prior-rounds is {}; it must be between 1 and {}", options.prior_rounds,
                                  kMostPriorRounds));
  check_workers(options.workers);
  check_forget();
  if (options.method == Method::fixed &&
      (options.weights.size() != options.workers || !std::ranges::all_of(options.weights, is_weight)))
    throw ConfigError("the method fixed needs a finite weight for each worker");
  if (options.method == Method::agree && options.begin % SignVector::kBits != 0 &&
      options.begin < options.end)
    throw ConfigError(
        fmt::format("with the method agree a tally's range must begin at a multiple of {}, not {}",
                    SignVector::kBits, options.begin));
  rounds_of_.resize(options.workers);
  totals_.resize(options.workers);
  if (counts()) counts_.resize(options.workers * blocks());
  if (options.method == Method::agree) {
    round_agreement_.resize(Agreement::numbers(options.workers));
    agreement_.resize(round_agreement_.size() + 1);
  }
}

void Tally::check_workers(std::uint32_t workers) const {
  if (workers == 0) throw ConfigError("a tally needs at least one worker");
  if (weighs_workers() && workers > kMostWeighed)
    throw ConfigError(fmt::format("the method {} takes up to {} workers, not {}: choose shrink",
                                  options_.method == Method::agree ? "agree" : "fixed", kMostWeighed,
                                  workers));
}

void Tally::check_forget() const {
  const double forget = forget_share();
  if (forget == 0) return;
  if (!(forget >= kLeastForget && forget <= kMostForget))
    throw ConfigError(
        fmt::format("forget is {}; it must be 0, or between {} and {}", forget, kLeastForget, kMostForget));
  if (counts() && full_rounds() / 2 < options_.initial_rounds)
    throw ConfigError(
        fmt::format("forget is {}, so that a worker's rounds are halved to {}, less than the {} "
                    "initial-rounds it needs to "
                    "have a say; take less of one of them",
                    forget, full_rounds() / 2, options_.initial_rounds));
}

/// A worker's counts and rounds are halved when it has so many rounds.
std::uint32_t Tally::full_rounds() const {
  if (!counts() || forget_share() == 0) return kFullRounds;
  constexpr double kLn2 = 0.693147180559945309;
  return std::min(kFullRounds, 2 * static_cast<std::uint32_t>(std::floor(kLn2 / forget_share() + 0.5)));
}

void Tally::for_ranges(const auto& body) const {
  const std::size_t tasks = (words() + kTaskWords - 1) / kTaskWords;
  const auto task = [&](std::size_t index) {
    body(index * kTaskWords, std::min(words(), (index + 1) * kTaskWords));
  };
  if (parallel_for_)
    parallel_for_(tasks, task);
  else
    for (std::size_t index = 0; index < tasks; ++index) task(index);
}

void Tally::decide(std::span<const std::optional<SignView>> ballots, SignVector& verdict) {
  assert(ballots.size() == options_.workers);
  std::vector<std::uint32_t> present;
  std::size_t mature = 0;
  for (std::uint32_t m = 0; m < options_.workers; ++m) {
    if (!ballots[m]) continue;
    assert(ballots[m]->size() == size());
    present.push_back(m);
    if (rounds_of_[m] >= options_.initial_rounds) ++mature;
  }
  ++rounds_;
  if (options_.method == Method::agree) learn_agreement(agreement());
  if (verdict.size() != size() || present.empty()) verdict.reset(size());
  if (options_.method == Method::agree && present.empty()) {  // a round in which no pair met
    std::ranges::fill(round_agreement_, 0);
    sums_ = round_agreement_;
  }
  if (present.empty()) return;

  if (learns() && 2 * mature >= present.size()) weighted_ = true;
  const bool is_fixed = options_.method == Method::fixed;
  const bool weigh = is_fixed || (weighted_ && mature > 0);

  const std::int16_t clip = clip_units(options_.clip);
  static_assert(kernels::kBlockCounts == sizeof(CountBlock) / sizeof(std::uint16_t));
  const auto counts_of = [this](std::uint32_t m) {
    return kernels::Counts{counts_.empty() ? nullptr : counts_[m].half_errors.data(),
                           options_.workers * kernels::kBlockCounts};
  };
  const auto weighs = [&](std::uint32_t m) {
    return weigh && (is_fixed || rounds_of_[m] >= options_.initial_rounds);
  };
  // Those without weight come last: they are only counted, after the vote.
  const auto unweighted = std::stable_partition(present.begin(), present.end(), weighs);
  const auto weighted = static_cast<std::size_t>(unweighted - present.begin());
  std::vector<kernels::Voter> voters;
  std::vector<kernels::Planes> equals;
  std::vector<kernels::FixedVoter> fixed;
  if (weigh && weighs_workers()) {
    const std::span mature_voters(present.data(), weighted);
    const std::vector<std::int16_t> weights = integer_weights(mature_voters);
    for (std::size_t i = 0; i < weighted; ++i) fixed.push_back({planes(*ballots[present[i]]), weights[i]});
  }
  for (const std::uint32_t m : present) {
    const std::uint32_t rounds =
        rounds_of_[m] + (options_.method == Method::shrink ? options_.prior_rounds : 0);
    voters.push_back({planes(*ballots[m]), counts_of(m), 2.0F * static_cast<float>(rounds), prior(m)});
    equals.push_back(planes(*ballots[m]));
  }

  for_ranges([&](std::size_t first, std::size_t last) {
    std::uint64_t* out_present = verdict.present().data();
    std::uint64_t* out_negative = verdict.negative().data();
    std::vector<std::int64_t> more(voters.size());  // half-errors of this round
    const std::span all(voters);
    if (!fixed.empty())
      kernels::fixed_vote(fixed, first, last, out_present, out_negative);
    else if (weigh)
      kernels::weighted_vote(all.first(weighted), clip, first, last, out_present, out_negative, more.data());
    else
      kernels::majority(equals, first, last, out_present, out_negative);
    if (!counts()) return;
    kernels::count_half_errors(all.subspan(weighted), planes(verdict), first, last, more.data() + weighted);
    const std::size_t past_the_end = last * SignVector::kBits - std::min(size(), last * SignVector::kBits);
    for (std::size_t i = 0; i < present.size(); ++i)
      std::atomic_ref(totals_[present[i]])
          .fetch_add(more[i] - static_cast<std::int64_t>(past_the_end), std::memory_order_relaxed);
  });
  if (options_.method == Method::agree) compare(present, ballots);
  for (const std::uint32_t m : present) {
    ++rounds_of_[m];
    halve_if_full(m);
  }
  sums_ = pooled();
}

/// The work grows with the square of the workers. So where there are many, only some blocks of coordinates
/// are compared: those of the whole model, wherever its ranges are cut.
void Tally::compare(std::span<const std::uint32_t> present,
                    std::span<const std::optional<SignView>> ballots) {
  const std::size_t stride = (options_.workers + kComparedWhole - 1) / kComparedWhole;
  std::vector<kernels::Planes> all;
  for (const std::uint32_t m : present) all.push_back(planes(*ballots[m]));
  std::vector<std::uint32_t> order(present.begin(), present.end());
  std::ranges::fill(round_agreement_, 0);
  const std::size_t before = options_.begin / SignVector::kBits;  // words of the model before this range
  for_ranges([&](std::size_t first, std::size_t last) {
    std::vector<kernels::PairCount> pairs(all.size() * (all.size() - 1) / 2);
    for (std::size_t word = first; word < last;) {
      const std::size_t block = (before + word) / kBlockWords;
      const std::size_t end = stride == 1 ? last : std::min(last, (block + 1) * kBlockWords - before);
      if (block % stride == 0) kernels::count_agreement(all, word, end, pairs.data());
      word = end;
    }
    for (std::size_t i = 1, at = 0; i < order.size(); ++i)
      for (std::size_t j = 0; j < i; ++j, ++at) {
        const std::size_t high = std::max(order[i], order[j]);
        std::int64_t* number = &round_agreement_[2 * (high * (high - 1) / 2 + std::min(order[i], order[j]))];
        std::atomic_ref(number[0]).fetch_add(pairs[at].both, std::memory_order_relaxed);
        std::atomic_ref(number[1]).fetch_add(pairs[at].agreement, std::memory_order_relaxed);
      }
  });
}

/// With the last round.
Agreement Tally::agreement() const {
  const double share = forget_share() * static_cast<double>(Agreement::kShare);
  Agreement result(options_.workers, static_cast<std::int64_t>(std::floor(share + 0.5)));
  result.set_state(agreement_);
  if (!sums_.empty()) result.add(sums_);
  return result;
}

void Tally::learn_agreement(const Agreement& with_last_round) {
  agreement_.assign(with_last_round.state().begin(), with_last_round.state().end());
  sums_.clear();
}

std::vector<double> Tally::worker_weights() const {
  if (options_.method == Method::fixed) return options_.weights;
  if (options_.method != Method::agree) return {};
  std::vector<double> weights = agreement().correctness(options_.prior_rounds);
  for (double& weight : weights) weight = Agreement::weight(weight, options_.clip);
  return weights;
}

Tally::MeanWeight Tally::mean_weight(std::uint32_t worker) const {
  assert(worker < options_.workers);
  if (options_.method == Method::mv) return {1, 1};
  if (weighs_workers()) {
    const double weight = worker_weights()[worker];
    return {weight, std::abs(weight)};
  }
  assert(rounds_of_[worker] > 0);
  const bool shrinks = options_.method == Method::shrink;
  const std::int16_t clip = clip_units(options_.clip);
  const float more = prior(worker);
  const float twice_rounds =
      2.0F * static_cast<float>(rounds_of_[worker] + (shrinks ? options_.prior_rounds : 0));
  std::int64_t sum = 0;
  std::int64_t magnitudes = 0;
  for (const std::uint16_t count : half_errors(worker)) {
    const std::int16_t units = weight(count, more, twice_rounds, clip);
    sum += units;
    magnitudes += std::abs(units);
  }
  const double unit = kNatsPerUnit / std::max<double>(1, static_cast<double>(size()));
  return {static_cast<double>(sum) * unit, static_cast<double>(magnitudes) * unit};
}

std::vector<double> Tally::agreement_shares() const {
  if (options_.method != Method::agree) return {};
  const Agreement known = agreement();
  const std::size_t n = options_.workers;
  std::vector<double> shares(n * n, std::numeric_limits<double>::quiet_NaN());
  const std::span<const std::int64_t> pairs = known.state();
  for (std::size_t i = 1, at = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j, at += 2) {
      if (pairs[at] == 0) continue;
      const double mean = static_cast<double>(pairs[at + 1]) / static_cast<double>(pairs[at]);
      shares[i * n + j] = shares[j * n + i] = (1 + mean) / 2;
    }
  return shares;
}

/// In a unit so small that sixteen bits just hold their sum.
std::vector<std::int16_t> Tally::integer_weights(std::span<const std::uint32_t> voters) const {
  const std::vector<double> weights = worker_weights();
  double sum = 0;
  for (const std::uint32_t m : voters) sum += std::abs(weights[m]);
  std::vector<std::int16_t> result;
  for (const std::uint32_t m : voters)
    result.push_back(sum > 0 ? static_cast<std::int16_t>(std::floor(weights[m] * (kWeightSum / sum) + 0.5))
                             : 1);
  return result;
}

void Tally::halve_if_full(std::uint32_t worker) {
  if (rounds_of_[worker] < full_rounds()) return;
  // Rounds are rounded up and counts down, so that no count exceeds twice the rounds.
  rounds_of_[worker] -= rounds_of_[worker] / 2;
  if (counts())
    for_ranges([&](std::size_t first, std::size_t last) {
      for (std::size_t b = first / kBlockWords; b * kBlockWords < last; ++b)
        for (std::uint16_t& count : counts_[b * options_.workers + worker].half_errors) count /= 2;
    });
  sum_up(worker);
}

void Tally::forget(std::uint32_t worker) {
  assert(worker < options_.workers);
  rounds_of_[worker] = 0;
  totals_[worker] = 0;
  if (options_.method == Method::shrink && !sums_.empty()) sums_[worker] = 0;
  if (options_.method == Method::agree) {
    Agreement known = agreement();
    known.forget(worker);
    learn_agreement(known);
  }
  if (counts())
    for (std::size_t b = 0; b < blocks(); ++b) counts_[b * options_.workers + worker] = {};
}

void Tally::set_workers(std::uint32_t workers) {
  check_workers(workers);
  const std::uint32_t kept = std::min(workers, options_.workers);
  if (options_.method == Method::fixed && workers != options_.workers)
    throw ConfigError("the method fixed has as many workers as weights");
  if (options_.method == Method::agree) {
    learn_agreement(agreement());
    const std::int64_t rounds = agreement_.back();
    agreement_.resize(Agreement::numbers(kept));  // the pairs of the first workers come first
    agreement_.resize(Agreement::numbers(workers));
    agreement_.push_back(rounds);
    round_agreement_.assign(Agreement::numbers(workers), 0);
  }
  if (options_.method == Method::shrink && !sums_.empty()) {
    const std::int64_t coordinates = sums_.back();
    sums_.resize(kept);
    sums_.resize(workers);
    sums_.push_back(coordinates);
  }
  if (counts()) {
    std::vector<CountBlock> blocks_of_all(workers * blocks());
    for (std::size_t b = 0; b < blocks(); ++b)
      std::copy_n(counts_.begin() + static_cast<std::ptrdiff_t>(b * options_.workers), kept,
                  blocks_of_all.begin() + static_cast<std::ptrdiff_t>(b * workers));
    counts_ = std::move(blocks_of_all);
  }
  options_.workers = workers;
  rounds_of_.resize(workers);
  totals_.resize(workers);
}

void Tally::sum_up(std::uint32_t worker) {
  const auto counts = half_errors(worker);
  totals_[worker] = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::vector<std::uint16_t> Tally::half_errors(std::uint32_t worker) const {
  assert(worker < options_.workers);
  std::vector<std::uint16_t> all;
  if (!counts()) return all;
  all.reserve(blocks() * kernels::kBlockCounts);
  for (std::size_t b = 0; b < blocks(); ++b) {
    const auto& block = counts_[b * options_.workers + worker].half_errors;
    all.insert(all.end(), block.begin(), block.end());
  }
  all.resize(size());
  return all;
}

std::int64_t Tally::total_half_errors(std::uint32_t worker) const {
  assert(worker < options_.workers);
  return totals_[worker];
}

std::vector<std::int64_t> Tally::total_half_errors() const {
  return counts() ? totals_ : std::vector<std::int64_t>();
}

std::vector<std::int64_t> Tally::pooled() const {
  if (options_.method == Method::agree) return round_agreement_;
  if (options_.method != Method::shrink) return {};
  std::vector<std::int64_t> own = totals_;
  own.push_back(static_cast<std::int64_t>(size()));
  return own;
}

void Tally::set_pooled(std::vector<std::int64_t> sums) {
  const std::vector<std::int64_t> own = pooled();
  bool possible = sums.size() == own.size();
  if (options_.method == Method::agree)
    for (std::size_t i = 0; possible && i < own.size(); i += 2)
      possible = sums[i] >= own[i] && std::abs(sums[i + 1] - own[i + 1]) <= sums[i] - own[i];
  // What the other ranges add is at least nothing, and at most two half-errors a round and coordinate.
  for (std::size_t m = 0; possible && options_.method == Method::shrink && m + 1 < own.size(); ++m) {
    const auto others = static_cast<double>(sums.back()) - static_cast<double>(own.back());
    const auto more = static_cast<double>(sums[m]) - static_cast<double>(own[m]);
    possible = more >= 0 && more <= 2.0 * rounds_of_[m] * others;
  }
  if (!possible) throw DataError("the sums over all parts of the tally are impossible");
  sums_ = std::move(sums);
}

/// In IEEE's double precision, each step exactly rounded: the same everywhere.
float Tally::prior(std::uint32_t worker) const {
  assert(worker < options_.workers);
  if (options_.method != Method::shrink || rounds_of_[worker] == 0 || sums_.empty() || sums_.back() == 0)
    return 0;
  const double rate =
      static_cast<double>(sums_[worker]) / (2.0 * rounds_of_[worker] * static_cast<double>(sums_.back()));
  return static_cast<float>(std::floor(2.0 * options_.prior_rounds * rate * kPriorUnits + 0.5)) / kPriorUnits;
}

}  // namespace signvote
