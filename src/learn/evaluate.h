// Tests a network: accuracy, loss and the confusion matrix over the test set. A test image's result depends
// only on the parameters and the image.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "learn/dataset.h"
#include "learn/models.h"

namespace signvote {

struct Evaluation {
  std::size_t classes = 0;
  std::size_t samples = 0;
  double loss = 0;                       // mean cross-entropy
  std::vector<std::uint64_t> confusion;  // [true label * classes + predicted label]

  std::uint64_t correct() const;
  double accuracy() const { return static_cast<double>(correct()) / static_cast<double>(samples); }
};

/// For BatchNorm: estimates the running statistics anew on a fixed subset of the training set, and gives
/// them to every replica. Training never uses them, so replicas stay equal without sending them.
void estimate_batch_norm(const Dataset& dataset, Replicas& replicas, ThreadPool& pool);

Evaluation evaluate(const Dataset& dataset, Replicas& replicas, ThreadPool& pool);

}  // namespace signvote
