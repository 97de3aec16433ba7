#include "signvote/tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <numeric>
#include <utility>

#include "kernels/kernels.h"
#include "kernels/weight.h"
#include "signvote/error.h"
#include "tally/limits.h"

namespace signvote {
namespace {

/// Words (of 64 coordinates) that one task decides: 15 workers' counts for them fit the L2 cache.
constexpr std::size_t kTaskWords = 128;

kernels::Planes planes(SignView signs) { return {signs.present().data(), signs.negative().data()}; }

}  // namespace

Tally::Tally(const TallyOptions& options, ParallelFor parallel_for)
    : options_(options), parallel_for_(std::move(parallel_for)) {
  if (options.workers == 0) throw ConfigError("a tally needs at least one worker");
  if (options.begin > options.end)
    throw ConfigError(fmt::format("a tally's range [{}, {}) runs backwards", options.begin, options.end));
  if (!(options.clip >= kMinClip && options.clip <= kMaxClip))
    throw ConfigError(
        fmt::format("clip is {}; it must be between {} and {}", options.clip, kMinClip, kMaxClip));
  if (options.initial_rounds == 0 || options.initial_rounds > kFullRounds / 2)
    throw ConfigError(fmt::format("initial-rounds is {}; it must be between 1 and {}", options.initial_rounds,
                                  kFullRounds / 2));
  rounds_of_.resize(options.workers);
  totals_.resize(options.workers);
  if (options.method == Method::it) counts_.resize(options.workers * blocks());
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
  if (verdict.size() != size() || present.empty()) verdict.reset(size());
  if (present.empty()) return;

  const bool learns = options_.method == Method::it;
  if (learns && 2 * mature >= present.size()) weighted_ = true;
  const bool weigh = weighted_ && mature > 0;

  const std::int16_t clip = clip_units(options_.clip);
  static_assert(kernels::kBlockCounts == sizeof(CountBlock) / sizeof(std::uint16_t));
  const auto counts_of = [this](std::uint32_t m) {
    return kernels::Counts{counts_.empty() ? nullptr : counts_[m].half_errors.data(),
                           options_.workers * kernels::kBlockCounts};
  };
  const auto weighs = [&](std::uint32_t m) { return weigh && rounds_of_[m] >= options_.initial_rounds; };
  // Those without weight come last: they are only counted, after the vote.
  const auto unweighted = std::stable_partition(present.begin(), present.end(), weighs);
  const auto weighted = static_cast<std::size_t>(unweighted - present.begin());
  std::vector<kernels::Voter> voters;
  std::vector<kernels::Planes> equals;
  for (const std::uint32_t m : present) {
    voters.push_back({planes(*ballots[m]), counts_of(m), 2.0F * static_cast<float>(rounds_of_[m])});
    equals.push_back(planes(*ballots[m]));
  }

  for_ranges([&](std::size_t first, std::size_t last) {
    std::uint64_t* out_present = verdict.present().data();
    std::uint64_t* out_negative = verdict.negative().data();
    std::vector<std::int64_t> more(voters.size());  // half-errors of this round
    const std::span all(voters);
    if (weigh)
      kernels::weighted_vote(all.first(weighted), clip, first, last, out_present, out_negative, more.data());
    else
      kernels::majority(equals, first, last, out_present, out_negative);
    if (!learns) return;
    kernels::count_half_errors(all.subspan(weighted), planes(verdict), first, last, more.data() + weighted);
    const std::size_t past_the_end = last * SignVector::kBits - std::min(size(), last * SignVector::kBits);
    for (std::size_t i = 0; i < present.size(); ++i)
      std::atomic_ref(totals_[present[i]])
          .fetch_add(more[i] - static_cast<std::int64_t>(past_the_end), std::memory_order_relaxed);
  });
  for (const std::uint32_t m : present) {
    ++rounds_of_[m];
    halve_if_full(m);
  }
}

void Tally::halve_if_full(std::uint32_t worker) {
  if (rounds_of_[worker] < kFullRounds) return;
  // Rounds are rounded up and counts down, so that no count exceeds twice the rounds.
  rounds_of_[worker] -= rounds_of_[worker] / 2;
  if (options_.method == Method::it)
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
  if (options_.method == Method::it)
    for (std::size_t b = 0; b < blocks(); ++b) counts_[b * options_.workers + worker] = {};
}

void Tally::set_workers(std::uint32_t workers) {
  if (workers == 0) throw ConfigError("a tally needs at least one worker");
  if (options_.method == Method::it) {
    std::vector<CountBlock> counts(workers * blocks());
    const std::uint32_t kept = std::min(workers, options_.workers);
    for (std::size_t b = 0; b < blocks(); ++b)
      std::copy_n(counts_.begin() + static_cast<std::ptrdiff_t>(b * options_.workers), kept,
                  counts.begin() + static_cast<std::ptrdiff_t>(b * workers));
    counts_ = std::move(counts);
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
  if (options_.method == Method::mv) return all;
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
  return options_.method == Method::it ? totals_ : std::vector<std::int64_t>();
}

}  // namespace signvote
