// Equation 2 for many workers on all cores: worker m's gradient over B_m samples of D_m.
//
// A batch is cut into micro-batches of at most `micro_batch` samples, each one task of one thread, and
// their gradients are added in the order of the samples. So every core is busy even if the batches are
// unequal, and the sum is the same, bit for bit, for any number of threads. A network with BatchNorm takes
// a worker's batch whole, because the statistics are those of the batch.
//
// The gradient is the sum over the batch, not the mean: only its signs are used.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "learn/batch.h"
#include "learn/dataset.h"
#include "learn/loss.h"
#include "learn/models.h"

namespace signvote {

struct GradientOptions {
  std::vector<std::uint32_t> batches;              // B_m
  std::vector<std::vector<std::uint32_t>> shares;  // D_m
  std::vector<std::uint32_t> hosted;               // the workers whose gradients are wanted here
  std::size_t micro_batch = 64;
  std::uint64_t seed = 0;
  Loss loss = Loss::cross_entropy;
};

class Gradients {
 public:
  /// All references must outlive this. REQUIRES: as many replicas as threads; B_m <= |D_m|.
  Gradients(const Dataset& dataset, GradientOptions options, Replicas& replicas, ThreadPool& pool);

  /// Called once per hosted worker from the pool's threads, in any order. The gradient is valid only during
  /// the call. Like it, `loss` is the sum over the batch.
  using Ready = std::function<void(std::uint32_t worker, std::span<const float> gradient, double loss)>;

  /// Computes the gradients of one round for all hosted workers except those in `absent`.
  void compute(std::uint64_t round, const Ready& ready, std::span<const std::uint32_t> absent = {});

  /// From the next round on worker m uses this many samples. REQUIRES: not more than |D_m|.
  void set_batch(std::uint32_t worker, std::uint32_t batch);
  std::size_t share(std::uint32_t worker) const { return options_.shares[worker].size(); }  // |D_m|

  /// The samples that worker m takes in a round: B_m different ones of D_m. They depend only on the seed,
  /// the worker and the round.
  std::vector<Pick> draw(std::uint32_t worker, std::uint64_t round) const;

 private:
  struct Task {
    std::uint32_t worker;
    std::size_t part;
    std::size_t first;
    std::size_t count;
  };
  struct Progress {
    std::size_t parts = 0;
    std::size_t added = 0;
    std::vector<float> sum;
    double loss = 0;
  };

  void cut_tasks();
  double run_task(const Task& task, std::uint64_t round, std::size_t thread);
  void add_in_turn(const Task& task, std::span<const float> gradient, double loss, const Ready& ready);

  const Dataset& dataset_;
  GradientOptions options_;
  Replicas& replicas_;
  ThreadPool& pool_;
  std::vector<BatchReader> readers_;  // one per thread
  std::vector<Task> tasks_;           // largest batches first
  std::vector<std::vector<Pick>> picks_;

  std::mutex mutex_;
  std::condition_variable turn_;
  bool failed_ = false;
  std::vector<Progress> progress_;
  std::vector<std::vector<float>> spare_sums_;
};

}  // namespace signvote
