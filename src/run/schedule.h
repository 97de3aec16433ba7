// How far each round moves the model: a function of the settings and of the round alone, so that every
// engine, and whoever replays a journal, steps by the same bits. Does not use torch.
//
// Of T rounds, round t = 0 .. T - 1 has delta_t = step * shape(t) * warm_up(t), with
//
//   constant   shape = 1
//   cosine     shape = (1 + cos(pi * t / T)) / 2
//   linear     shape = (T - t) / T
//   wsd        shape = min(1, (T - t) / D), D = floor(T / 5): warm-up, stable, decay
//
//   warm_up = (t + 1) / W in the first W rounds, then 1
//
// and decay_t = delta_t * L for a weight decay L. Both are computed in double and rounded to float once.
#pragma once

#include <cstdint>

#include "run/config.h"
#include "signvote/sign_vector.h"

namespace signvote {

class Schedule {
 public:
  /// REQUIRES: config is resolved.
  explicit Schedule(const TrainConfig& config);

  Step operator()(std::uint64_t round) const;
  /// delta before it is rounded to float.
  double delta(std::uint64_t round) const;

 private:
  double step_;
  double weight_decay_;
  std::uint64_t rounds_;         // T
  std::uint64_t warmup_rounds_;  // W
  std::uint64_t decay_rounds_;   // the last rounds, in which the step falls; 0: in none
  bool cosine_;
};

/// Throws ConfigError if the settings of the steps make no sense together.
void check_schedule(const TrainConfig& config);

/// Whether the first `rounds` rounds have the same steps under both settings.
bool same_steps(const TrainConfig& before, const TrainConfig& after, std::uint64_t rounds);

/// A run may be given more rounds, or fewer, if every round that it has done keeps its step: then it ends
/// with the same bytes as one that had so many from the beginning. Throws ConfigError that says what to do
/// instead. The run is in the folder before.out, and has done `done` rounds.
void check_rounds(const TrainConfig& before, const TrainConfig& after, std::uint64_t done);

}  // namespace signvote
