#include "run/learner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "kernels/kernels.h"
#include "learn/model_file.h"
#include "learn/partition.h"
#include "run/network.h"
#include "signvote/error.h"

namespace signvote {
namespace {

/// When it is destroyed, adds the time that it lived to a sum that many threads add to.
class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<std::int64_t>& nanoseconds) : nanoseconds_(nanoseconds) {}
  ~Stopwatch() { nanoseconds_ += std::chrono::nanoseconds(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  std::atomic<std::int64_t>& nanoseconds_;
  Clock::time_point start_ = Clock::now();
};

GradientOptions with_loss(GradientOptions options, Loss loss) {
  options.loss = loss;
  return options;
}

}  // namespace

GradientOptions gradient_options(const TrainConfig& config, const Dataset& dataset,
                                 std::vector<std::uint32_t> hosted) {
  GradientOptions options;
  options.batches = config.batch_sizes();
  options.shares = partition(config.partition, dataset.train.count(), dataset.train.classes(),
                             dataset.classes, options.batches.size(), config.seed);
  options.hosted = std::move(hosted);
  options.micro_batch = config.micro_batch;
  options.seed = config.seed;
  for (std::size_t m = 0; m < options.batches.size(); ++m)
    if (options.batches[m] > options.shares[m].size())
      throw ConfigError(
          fmt::format("worker {} has a batch of {} but holds only {}; give it a smaller batch in "
                      "--batches, or take another --partition",
                      m, options.batches[m], counted(options.shares[m].size(), "sample")));
  return options;
}

Learner::Learner(const TrainConfig& config, const Dataset& dataset, std::vector<std::uint32_t> hosted,
                 std::function<void(const std::string&)> warn)
    : config_(config),
      dataset_(dataset),
      step_of_(config),
      betas_(config.betas()),
      full_precision_(config.full_precision()),
      has_momentum_(betas_ != Betas{} || full_precision_),
      attack_(config.attack),
      sparsity_(config.sparsity),
      seed_(config.seed),
      absences_(config.absences()),
      hosted_(hosted),
      batches_(config.batch_sizes()),
      warn_(std::move(warn)),
      pool_(config.thread_count(), use_one_torch_thread),
      replicas_(make_replicas(config, dataset, pool_.size())),
      loss_(checked_loss(config, dataset, replicas_.net(0))),
      gradients_(dataset, with_loss(gradient_options(config, dataset, std::move(hosted)), loss_), replicas_,
                 pool_),
      ballots_(*config.workers),
      memories_(*config.workers),
      samples_(*config.workers) {
  const std::size_t parts = (has_momentum_ ? 1 : 0) + (sparsity_.keeps_unsent() ? 1 : 0);
  for (const std::uint32_t worker : hosted_) memories_[worker].resize(parts * replicas_.size());
}

void Learner::set_memories(std::vector<std::vector<float>> memories) {
  memories.resize(memories_.size());
  for (const std::uint32_t worker : hosted_)
    if (memories[worker].size() != memories_[worker].size())
      throw DataError(fmt::format(
          "the memory of worker {} was not saved with the run, or is that of another model", worker));
  memories_ = std::move(memories);
}

void Learner::set_batch(std::uint32_t worker, std::uint32_t batch) {
  batches_[worker] = batch;
  gradients_.set_batch(worker, batch);
}

void Learner::vote(std::uint64_t round, const Vote& vote) {
  const std::vector<std::uint32_t> absent = absent_in(round);
  std::ranges::fill(samples_, 0);
  for (const std::uint32_t worker : absent) vote(worker, nullptr, {});
  const auto ready = [&](std::uint32_t worker, std::span<const float> gradient, double loss) {
    const Stopwatch stopwatch(ballot_nanoseconds_);
    std::vector<float> noisy;
    if (attack_.adds_noise(worker)) {
      noisy.assign(gradient.begin(), gradient.end());
      attack_.add_noise(seed_, round, worker, noisy);
      gradient = noisy;
    }
    const auto bad = sign(round, worker, gradient);
    if (!bad) {
      attack_.apply(seed_, round, worker, ballots_[worker]);
      samples_[worker] = batches_[worker];
      return vote(worker, &ballots_[worker], {batches_[worker], loss});
    }
    warn_of_gradient(round, worker, *bad);
    vote(worker, nullptr, {});
  };
  gradients_.compute(round, ready, absent);
}

/// Returns the first coordinate that is NaN or infinite, if there is one.
std::optional<std::size_t> Learner::sign(std::uint64_t round, std::uint32_t worker,
                                         std::span<const float> gradient) {
  SignVector& ballot = ballots_[worker];
  const std::span<float> memory = memories_[worker];
  const std::span<float> momentum = memory.first(has_momentum_ ? gradient.size() : 0);
  const std::span<float> unsent = memory.subspan(momentum.size());
  if (unsent.empty()) {
    const auto bad = has_momentum_ ? pack(gradient, momentum, betas_, ballot) : pack(gradient, ballot);
    if (!bad) sparsity_.thin(seed_, round, worker, ballot);
    return bad;
  }
  if (const auto bad = pack(gradient, ballot)) return bad;
  std::vector<float> mixed(momentum.size());
  if (has_momentum_)
    kernels::mix(gradient.data(), momentum.data(), mixed.size(), betas_.vote, betas_.momentum, mixed.data());
  std::ranges::transform(unsent, has_momentum_ ? std::span<const float>(mixed) : gradient, unsent.begin(),
                         std::plus{});
  sparsity_.send_largest(unsent, ballot);
  return std::nullopt;
}

std::vector<std::uint32_t> Learner::absent_in(std::uint64_t round) const {
  std::vector<std::uint32_t> absent;
  for (const std::uint32_t worker : hosted_)
    if (std::ranges::any_of(absences_, [&](const Absence& absence) {
          return absence.worker == worker && absence.first <= round && round <= absence.last;
        }))
      absent.push_back(worker);
  return absent;
}

void Learner::step(std::uint64_t round, const SignVector& verdict) {
  if (full_precision_) return step_by_mean(step_of_(round));
  signvote::step(replicas_.parameters(), verdict, step_of_(round));
}

/// x <- x - decay * x - delta * (sum of what the voters remember) / (their samples). A gradient is a sum over
/// samples and momentum is linear, so this is the momentum of the mean gradient.
void Learner::step_by_mean(const Step& step) {
  const auto all =
      std::max<std::uint64_t>(1, std::reduce(samples_.begin(), samples_.end(), std::uint64_t{0}));
  const float delta = step.delta / static_cast<float>(all);
  const std::span<float> parameters = replicas_.parameters();
  constexpr std::size_t kRange = 4096;
  pool_.parallel_for()((parameters.size() + kRange - 1) / kRange, [&](std::size_t range) {
    const std::size_t begin = range * kRange;
    const std::size_t count = std::min(kRange, parameters.size() - begin);
    std::array<float, kRange> sum{};
    for (std::size_t m = 0; m < samples_.size(); ++m)
      if (samples_[m] > 0)
        for (std::size_t n = 0; n < count; ++n) sum[n] += memories_[m][begin + n];
    for (std::size_t n = 0; n < count; ++n) {
      float& x = parameters[begin + n];
      x -= step.decay * x + delta * sum[n];
    }
  });
}

std::optional<Evaluation> Learner::test() {
  estimate_batch_norm(dataset_, replicas_, pool_);
  return evaluate(dataset_, replicas_, pool_, loss_);
}

void Learner::write_model(const std::filesystem::path& stem) {
  estimate_batch_norm(dataset_, replicas_, pool_);
  save_model(replicas_.net(0), stem.string() + ".pt");
}

void Learner::describe(nlohmann::ordered_json& summary) const {
  summary["dataset"] = config_.dataset;
  summary["model"] = config_.has_own_model() ? kModelCopy : config_.model;
  summary["partition"] = config_.partition;
  summary["sign_of"] = config_.sign_of;
  if (config_.has_own_model()) summary["model_file_sha256"] = config_.model_file_sha256;
  if (!is_dataset_name(config_.dataset) && !dataset_.mean.empty())
    summary["normalisation"] = {{"mean", dataset_.mean}, {"deviation", dataset_.deviation}};
}

void Learner::warn_of_gradient(std::uint64_t round, std::uint32_t worker, std::size_t coordinate) {
  const std::lock_guard lock(warn_mutex_);
  if (warn_)
    warn_(fmt::format("round {}: worker {} abstains, its gradient is NaN or infinite at {} (coordinate {})",
                      round + 1, worker, replicas_.coordinate_name(coordinate), coordinate));
}

}  // namespace signvote
