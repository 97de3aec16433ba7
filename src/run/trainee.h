// What a run trains, as the run sees it: parameters that verdicts step. A Learner has a network and data, so
// that it can vote and test; BareParameters has nothing else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
  virtual void step(std::uint64_t round, const SignVector& verdict) = 0;

  /// None if this process has nothing to test the model with.
  virtual std::optional<Evaluation> test() = 0;

  /// Writes the model into a file of this name, to which it adds the ending of its kind: .pt or .npy.
  virtual void write_model(const std::filesystem::path& stem) = 0;

  /// The names of its layers and how many parameters each has, in order.
  virtual std::vector<std::pair<std::string, std::size_t>> layers() const = 0;

  /// Adds what summary.json says of it.
  virtual void describe(nlohmann::ordered_json& summary) const = 0;

  // The rest is about the workers that this process hosts, if it does.

  /// Called once per hosted worker, from any of the pool's threads. `ballot` is null if the worker takes no
  /// part in the round; otherwise it stays valid until the next call of vote().
  using Vote = std::function<void(std::uint32_t worker, const SignVector* ballot, const BatchLoss& loss)>;
  virtual void vote(std::uint64_t, const Vote&) {}

  /// What hosted workers remember from round to round, by worker: their momentum, unless they sign their
  /// gradients (with TrainConfig::full_precision these), followed by what they have not sent, if they keep
  /// that. set_memories throws DataError if a hosted worker's is missing or has another size.
  virtual std::vector<std::vector<float>> memories() const { return {}; }
  virtual void set_memories(std::vector<std::vector<float>>) {}

  /// The sum, over all threads, of the seconds from a finished gradient until its ballot was handed over.
  virtual double ballot_seconds() const { return 0; }
};

}  // namespace signvote
