// Tests the model of a server that knows no network, by the user's own model file and data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "learn/dataset.h"
#include "learn/evaluate.h"
#include "learn/loss.h"
#include "learn/models.h"
#include "run/config.h"

namespace signvote {

class Evaluator {
 public:
  /// `parameters` is the file that the server began with: its ending tells the order of the coordinates,
  /// which is that of the model's parameters, or for a .pt file that of their names. Throws if the model does
  /// not fit the data.
  Evaluator(const std::string& model, const std::string& data, std::uint32_t threads,
            const std::filesystem::path& parameters);

  /// The model to test, in the server's order.
  std::span<float> parameters() { return served_; }
  Evaluation test();

 private:
  TrainConfig config_;
  Dataset dataset_;
  ThreadPool pool_;
  Replicas replicas_;
  Loss loss_ = Loss::cross_entropy;
  std::vector<float> served_;
  std::vector<std::span<float>> layers_;  // of the replicas, in the server's order
};

}  // namespace signvote
