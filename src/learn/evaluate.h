// Tests a network: accuracy, loss and the confusion matrix over the test set. A test sample's result depends
// only on the parameters and the sample.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "learn/dataset.h"
#include "learn/loss.h"
#include "learn/models.h"

namespace signvote {

struct Evaluation {
  std::size_t classes = 0;  // 0: y is not a class, so there is no accuracy
  std::size_t samples = 0;
  double loss = 0;            // mean over the samples
  std::uint64_t judged = 0;   // classes that the network had to tell: one for each sample or token
  std::uint64_t correct = 0;  // of these
  std::vector<std::uint64_t>
      confusion;  // [true label * classes + predicted label]; empty if too many classes

  std::optional<double> accuracy() const {
    if (judged == 0) return std::nullopt;
    return static_cast<double>(correct) / static_cast<double>(judged);
  }
};

/// For BatchNorm: estimates the running statistics anew on a fixed subset of the training set, and gives
/// them to every replica. Training never uses them, so replicas stay equal without sending them.
void estimate_batch_norm(const Dataset& dataset, Replicas& replicas, ThreadPool& pool);

Evaluation evaluate(const Dataset& dataset, Replicas& replicas, ThreadPool& pool,
                    Loss loss = Loss::cross_entropy);

}  // namespace signvote
