// What a run trains, as the run sees it: parameters that verdicts step. A Learner has a network and data,
// so that it can vote and test; Numbers has the parameters alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/engine.h"
#include "learn/evaluate.h"
#include "signvote/sign_vector.h"

namespace signvote {

class Trainee {
 public:
  virtual ~Trainee() = default;

  virtual std::span<float> parameters() = 0;
  virtual ThreadPool& pool() = 0;

  /// Called once per hosted worker, from any of the pool's threads. `ballot` is null if the worker takes no
  /// part in the round; otherwise it stays valid until the next call of vote().
  using Vote = std::function<void(std::uint32_t worker, const SignVector* ballot, const BatchLoss& loss)>;
  virtual void vote(std::uint64_t round, const Vote& vote) = 0;

  virtual void step(std::uint64_t round, const SignVector& verdict) = 0;

  /// What hosted workers remember from round to round, by worker: their momentum, or nothing if they sign
  /// their gradients (with TrainConfig::full_precision these). set_memories throws DataError if a hosted
  /// worker's is missing or has another size.
  virtual const std::vector<std::vector<float>>& memories() const = 0;
  virtual void set_memories(std::vector<std::vector<float>> memories) = 0;

  /// The sum, over all threads, of the seconds from a finished gradient until its ballot was handed over.
  virtual double ballot_seconds() const = 0;

  /// None if this process has nothing to test the model with.
  virtual std::optional<Evaluation> test() = 0;

  /// Writes the model into the run's folder, by the name that its kind of file has there.
  virtual void write_model(const std::filesystem::path& folder) = 0;

  /// Adds what summary.json says of it.
  virtual void describe(nlohmann::ordered_json& summary) const = 0;
};

}  // namespace signvote
