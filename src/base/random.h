// Streams of random numbers that are named by what they are used for: the run's seed, a purpose, and
// for example a worker and a round. Any process can draw the same stream at any time, so no generator
// has to be saved or passed along.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace signvote {

/// What a stream is used for. The numbers are part of the results of a run, so they never change.
enum class Purpose : std::uint64_t {
  partition = 1,
  samples = 2,
  augment = 3,
  run_id = 4,
  network = 5,
  attack = 6,
  channels = 7,
  sparsity = 8
};

class Random {
 public:
  Random(std::uint64_t seed, Purpose purpose, std::uint64_t a = 0, std::uint64_t b = 0);

  std::uint64_t bits() { return engine_(); }

  /// Uniform in [0, bound), without bias. Not std::uniform_int_distribution, because that differs
  /// between standard libraries. REQUIRES: bound > 0.
  std::uint64_t below(std::uint64_t bound);

  /// `count` different numbers below `bound`, in random order. REQUIRES: count <= bound.
  std::vector<std::uint32_t> distinct(std::size_t count, std::uint32_t bound);

  template <class T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace signvote
