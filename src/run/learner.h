// What a process does for the workers that it hosts: it turns gradients into ballots and verdicts into
// steps.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/engine.h"
#include "learn/dataset.h"
#include "learn/gradients.h"
#include "learn/models.h"
#include "run/attack.h"
#include "run/config.h"
#include "run/schedule.h"
#include "run/sparsity.h"
#include "signvote/sign_vector.h"

namespace signvote {

/// The batches and shares of all workers. Throws ConfigError if a batch is larger than its worker's share.
GradientOptions gradient_options(const TrainConfig& config, const Dataset& dataset,
                                 std::vector<std::uint32_t> hosted);

class Learner {
 public:
  /// The model is the one that the seed gives, or the user's file. References must outlive this; `warn` gets
  /// one line at a time.
  Learner(const TrainConfig& config, const Dataset& dataset, std::vector<std::uint32_t> hosted,
          std::function<void(const std::string&)> warn);

  /// Called once per hosted worker, from any of the pool's threads. `ballot` is null if the worker takes no
  /// part in the round; otherwise it stays valid until the next call of vote().
  using Vote = std::function<void(std::uint32_t worker, const SignVector* ballot, const BatchLoss& loss)>;
  void vote(std::uint64_t round, const Vote& vote);

  void step(std::uint64_t round, const SignVector& verdict);

  /// What hosted workers remember from round to round, by worker: their momentum, unless they sign their
  /// gradients (with TrainConfig::full_precision these), followed by what they have not sent, if they keep
  /// that. set_memories throws DataError if a hosted worker's is missing or has another size.
  const std::vector<std::vector<float>>& memories() const { return memories_; }
  std::vector<float>& memory(std::uint32_t worker) { return memories_[worker]; }
  void set_memories(std::vector<std::vector<float>> memories);

  /// From the next round on the worker uses this many samples. REQUIRES: not more than its share.
  void set_batch(std::uint32_t worker, std::uint32_t batch);
  std::size_t share(std::uint32_t worker) const { return gradients_.share(worker); }

  ThreadPool& pool() { return pool_; }
  Replicas& replicas() { return replicas_; }
  Loss loss() const { return loss_; }

  /// The sum, over all threads, of the seconds from a finished gradient until its ballot was handed over.
  double ballot_seconds() const { return 1e-9 * static_cast<double>(ballot_nanoseconds_); }

 private:
  std::vector<std::uint32_t> absent_in(std::uint64_t round) const;
  void warn_of_gradient(std::uint64_t round, std::uint32_t worker, std::size_t coordinate);

  std::optional<std::size_t> sign(std::uint64_t round, std::uint32_t worker, std::span<const float> gradient);
  void step_by_mean(const Step& step);

  Schedule step_of_;
  Betas betas_;
  bool full_precision_;
  bool has_momentum_;
  Attack attack_;
  Sparsity sparsity_;
  std::uint64_t seed_;
  std::vector<Absence> absences_;
  std::vector<std::uint32_t> hosted_;
  std::vector<std::uint32_t> batches_;
  std::function<void(const std::string&)> warn_;
  std::mutex warn_mutex_;
  ThreadPool pool_;
  Replicas replicas_;
  Loss loss_;
  Gradients gradients_;
  std::vector<SignVector> ballots_;           // by worker; empty for those hosted elsewhere
  std::vector<std::vector<float>> memories_;  // likewise
  std::vector<std::uint32_t> samples_;        // likewise: in this round's gradient, 0 without a ballot
  std::atomic<std::int64_t> ballot_nanoseconds_ = 0;
};

}  // namespace signvote
