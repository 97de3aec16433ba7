#include "run/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "base/text.h"
#include "signvote/error.h"

namespace signvote {
namespace {

// wsd decays in the last fifth: a shorter decay ends higher, and a longer one takes rounds from the part that
// may still be made longer. Hägele et al. (2024) see its gain level off near a fifth.
constexpr std::uint64_t kWsdShare = 5;

std::uint64_t decay_rounds(const TrainConfig& config) {
  if (config.step_schedule == "linear") return config.rounds;
  return config.step_schedule == "wsd" ? config.rounds / kWsdShare : 0;
}

/// sin(pi / 2 * x) for x within [0, 1], by its Taylor series: sums, products and quotients are the same bits
/// on every machine, which the results of a library's sin are not. What is left out is below 2e-18.
double sine_of_quarter_turns(double x) {
  const double angle = std::numbers::pi / 2 * x;
  double term = angle;
  double sum = angle;
  for (int k = 2; k <= 20; k += 2) {
    term *= -angle * angle / (k * (k + 1));
    sum += term;
  }
  return std::min(sum, 1.0);
}

}  // namespace

Schedule::Schedule(const TrainConfig& config)
    : step_(*config.step),
      weight_decay_(config.weight_decay),
      rounds_(config.rounds),
      warmup_rounds_(config.warmup_rounds),
      decay_rounds_(decay_rounds(config)),
      cosine_(config.step_schedule == "cosine") {}

double Schedule::delta(std::uint64_t round) const {
  const std::uint64_t left = rounds_ - std::min(round, rounds_);
  double factor = 1;
  if (cosine_) {  // (1 + cos(pi * t / T)) / 2 is this square, which stays exact where it is small
    const double sine = sine_of_quarter_turns(static_cast<double>(left) / static_cast<double>(rounds_));
    factor = sine * sine;
  } else if (left < decay_rounds_) {
    factor = static_cast<double>(left) / static_cast<double>(decay_rounds_);
  }
  if (round < warmup_rounds_) factor *= static_cast<double>(round + 1) / static_cast<double>(warmup_rounds_);
  return step_ * factor;
}

Step Schedule::operator()(std::uint64_t round) const {
  const double exact = delta(round);
  return {static_cast<float>(exact), static_cast<float>(exact * weight_decay_)};
}

void check_schedule(const TrainConfig& config) {
  // With wsd the step may not begin to fall before it has risen.
  const std::uint64_t last = config.rounds - (config.step_schedule == "wsd" ? decay_rounds(config) : 0);
  if (config.warmup_rounds > 0 && config.warmup_rounds >= last)
    throw ConfigError(
        fmt::format("--warmup-rounds is {}, but --step-schedule {} with {} leaves fewer than {} for it",
                    config.warmup_rounds, config.step_schedule, counted(config.rounds, "round"), last));
  if (*config.step * config.weight_decay >= 1)
    throw ConfigError(fmt::format(
        "--step {} times --weight-decay {} is not below 1, so every round would wipe out the model; take a "
        "smaller one",
        *config.step, config.weight_decay));
  if (Schedule(config)(config.rounds - 1).delta == 0)
    throw ConfigError(fmt::format("--step {} is so small that it ends as 0 after {}; take a larger one",
                                  *config.step, counted(config.rounds, "round")));
}

bool same_steps(const TrainConfig& before, const TrainConfig& after, std::uint64_t rounds) {
  const Schedule a(before);
  const Schedule b(after);
  for (std::uint64_t round = 0; round < rounds; ++round)
    if (a(round) != b(round)) return false;
  return true;
}

void check_rounds(const TrainConfig& before, const TrainConfig& after, std::uint64_t done) {
  if (done > after.rounds)
    throw ConfigError(
        fmt::format("'{}' has finished {} already, more than --rounds {}; give at least "
                    "that many, or choose another folder",
                    before.out, counted(done, "round"), after.rounds));
  if (!same_steps(before, after, done))
    throw ConfigError(
        fmt::format("'{}' has done {} with the steps that --step-schedule {} gives {}, which would be "
                    "others for {}; begin anew with --rounds {}, or choose constant or wsd next time",
                    before.out, counted(done, "round"), before.step_schedule, counted(before.rounds, "round"),
                    after.rounds, after.rounds));
}

}  // namespace signvote
