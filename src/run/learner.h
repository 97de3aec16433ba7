// What a process does for the workers that it hosts: it turns gradients into ballots and verdicts into
// steps. It has the network and the data, so it tests the model too.
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
#include "run/trainee.h"
#include "signvote/sign_vector.h"

namespace signvote {

/// The batches and shares of all workers. Throws ConfigError if a batch is larger than its worker's share.
GradientOptions gradient_options(const TrainConfig& config, const Dataset& dataset,
                                 std::vector<std::uint32_t> hosted);

class Learner final : public Trainee {
 public:
  /// The model is the one that the seed gives, or the user's file. References must outlive this; `warn` gets
  /// one line at a time.
  Learner(const TrainConfig& config, const Dataset& dataset, std::vector<std::uint32_t> hosted,
          std::function<void(const std::string&)> warn);

  std::span<float> parameters() override { return replicas_.parameters(); }
  ThreadPool& pool() override { return pool_; }
  void vote(std::uint64_t round, const Vote& vote) override;
  void step(std::uint64_t round, const SignVector& verdict) override;
  std::vector<std::vector<float>> memories() const override { return memories_; }
  std::vector<float>& memory(std::uint32_t worker) { return memories_[worker]; }
  void set_memories(std::vector<std::vector<float>> memories) override;
  double ballot_seconds() const override { return 1e-9 * static_cast<double>(ballot_nanoseconds_); }
  std::optional<Evaluation> test() override;
  void write_model(const std::filesystem::path& stem) override;
  std::vector<std::pair<std::string, std::size_t>> layers() const override { return replicas_.layers(); }
  void describe(nlohmann::ordered_json& summary) const override;

  /// From the next round on the worker uses this many samples. REQUIRES: not more than its share.
  void set_batch(std::uint32_t worker, std::uint32_t batch);
  std::size_t share(std::uint32_t worker) const { return gradients_.share(worker); }

 private:
  std::vector<std::uint32_t> absent_in(std::uint64_t round) const;
  void warn_of_gradient(std::uint64_t round, std::uint32_t worker, std::size_t coordinate);

  std::optional<std::size_t> sign(std::uint64_t round, std::uint32_t worker, std::span<const float> gradient);
  void step_by_mean(const Step& step);

  const TrainConfig& config_;
  const Dataset& dataset_;
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
