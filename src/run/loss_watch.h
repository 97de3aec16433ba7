// Tells once when a run goes wrong: when its loss has been far above its best for long.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace signvote {

class LossWatch {
 public:
  /// Takes the mean loss of a round, counted from 1. Returns a line for the user if the run goes wrong, once.
  /// The losses of rounds are smoothed; "far" is twice the best, and at least a tenth of the first above it.
  std::optional<std::string> add(std::uint64_t round, double loss);

  static constexpr std::uint64_t kLong = 50;  // rounds

 private:
  std::optional<double> first_;
  double smooth_ = 0;
  double best_ = 0;
  std::uint64_t best_round_ = 0;
  std::uint64_t far_rounds_ = 0;  // in a row
  bool told_ = false;
};

}  // namespace signvote
