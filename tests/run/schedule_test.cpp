// The steps of a run, and which runs may be given other rounds.
#include "run/schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "signvote/error.h"

namespace signvote {
namespace {

const std::vector<std::string> kNames = {"constant", "cosine", "linear", "wsd"};

/// Any settings of the steps that are accepted.
TrainConfig arbitrary_settings() {
  TrainConfig config;
  config.step_schedule = *rc::gen::elementOf(kNames);
  config.rounds = *rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(1, 100),
                                  rc::gen::element<std::uint64_t>(3000, 1'000'000'000));
  config.step = *rc::gen::element(1e-3, 4e-4, 1e-4, 0.1, 1.0, 1e-20);
  config.warmup_rounds = *rc::gen::inRange<std::uint64_t>(0, config.rounds);
  config.weight_decay = *rc::gen::element(0.0, 0.1, 0.9);
  try {
    resolve(config);
  } catch (const ConfigError&) {
    RC_DISCARD("warm-up and decay overlap");
  }
  return config;
}

std::uint64_t arbitrary_round(const TrainConfig& config) {
  return *rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(0, config.rounds),
                         rc::gen::element<std::uint64_t>(0, config.rounds - 1));
}

TEST(Schedule, steps_stay_within_their_bounds) {
  EXPECT_TRUE(rc::check("0 < delta <= step, also in the last round; decay is its part", [] {
    const TrainConfig config = arbitrary_settings();
    const std::uint64_t round = arbitrary_round(config);
    const Step step = Schedule(config)(round);
    RC_ASSERT(step.delta > 0);
    RC_ASSERT(step.delta <= static_cast<float>(*config.step));
    const double decay = config.weight_decay * static_cast<double>(step.delta);
    RC_ASSERT(std::abs(static_cast<double>(step.decay) - decay) <= 2e-7 * decay);
    RC_ASSERT(step.decay < 1);
  }));
}

TEST(Schedule, like_its_formula) {
  EXPECT_TRUE(rc::check("within a part in 10^12", [] {
    const TrainConfig config = arbitrary_settings();
    const std::uint64_t round = arbitrary_round(config);
    const auto t = static_cast<long double>(round), T = static_cast<long double>(config.rounds);
    const auto W = static_cast<long double>(config.warmup_rounds);
    const long double pi = std::acos(-1.0L);
    long double shape = 1;
    if (config.step_schedule == "cosine") shape = (1 + std::cos(pi * t / T)) / 2;
    if (config.step_schedule == "linear") shape = 1 - t / T;
    if (config.step_schedule == "wsd" && config.rounds >= 5)
      shape = std::min(1.0L, (T - t) / std::floor(T / 5));
    const long double warm_up = t < W ? (t + 1) / W : 1;
    const long double expected = *config.step * shape * warm_up;
    // Near their ends these differences are no better known to long double.
    RC_ASSERT(std::abs(Schedule(config).delta(round) - expected) <=
              1e-12L * expected + 1e-18L * *config.step);
  }));
}

TEST(Schedule, constant_is_exactly_the_step) {
  EXPECT_TRUE(rc::check("in every round after the warm-up", [] {
    TrainConfig config = arbitrary_settings();
    config.step_schedule = "constant";
    const std::uint64_t round = arbitrary_round(config);
    RC_PRE(round + 1 >= config.warmup_rounds);
    RC_ASSERT(Schedule(config)(round).delta == static_cast<float>(*config.step));
  }));
}

TEST(Schedule, rises_in_the_warm_up_and_falls_after_it) {
  EXPECT_TRUE(rc::check("from each round to the next", [] {
    const TrainConfig config = arbitrary_settings();
    RC_PRE(config.rounds > 1U);
    const std::uint64_t round = *rc::gen::inRange<std::uint64_t>(0, config.rounds - 1);
    const double now = Schedule(config).delta(round), next = Schedule(config).delta(round + 1);
    const bool flat = config.step_schedule == "constant" || config.step_schedule == "wsd";
    if (round + 1 < config.warmup_rounds && flat)  // the others fall a little meanwhile
      RC_ASSERT(now < next);
    else if (round + 1 >= config.warmup_rounds)
      RC_ASSERT(now >= next);
  }));
}

TEST(Schedule, the_first_and_the_last_steps) {
  TrainConfig config;
  config.step = 1;
  config.rounds = 10;
  const auto steps = [&config](const std::string& name) {
    config.step_schedule = name;
    std::vector<float> deltas;
    for (std::uint64_t round = 0; round < config.rounds; ++round)
      deltas.push_back(Schedule(config)(round).delta);
    return deltas;
  };
  EXPECT_EQ(steps("linear"), (std::vector<float>{1, 0.9F, 0.8F, 0.7F, 0.6F, 0.5F, 0.4F, 0.3F, 0.2F, 0.1F}));
  EXPECT_EQ(steps("wsd"), (std::vector<float>{1, 1, 1, 1, 1, 1, 1, 1, 1, 0.5F}));
  EXPECT_EQ(steps("cosine").front(), 1);
  EXPECT_EQ(steps("cosine")[5], 0.5F);
  config.warmup_rounds = 4;
  EXPECT_EQ(steps("constant"), (std::vector<float>{0.25F, 0.5F, 0.75F, 1, 1, 1, 1, 1, 1, 1}));
}

// --- Other rounds ---

/// What is said of a run that has done `done` rounds and is given others; nothing if it may go on.
std::string refusal(const TrainConfig& before, const TrainConfig& after, std::uint64_t done) {
  try {
    check_rounds(before, after, done);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(OtherRounds, exactly_if_no_step_that_was_done_changes) {
  EXPECT_TRUE(rc::check("refused if a step differs, or if there are fewer rounds than were done", [] {
    TrainConfig before;
    before.step = 4e-4;
    before.step_schedule = *rc::gen::elementOf(kNames);
    before.rounds = *rc::gen::inRange<std::uint64_t>(1, 60);
    TrainConfig after = before;
    after.rounds = *rc::gen::inRange<std::uint64_t>(1, 60);
    const auto done = *rc::gen::inRange<std::uint64_t>(0, before.rounds + 1);
    bool same = done <= after.rounds;
    for (std::uint64_t round = 0; round < done; ++round)
      same = same && Schedule(before)(round) == Schedule(after)(round);
    RC_ASSERT(refusal(before, after, done).empty() == same);
  }));
}

TEST(OtherRounds, by_schedule) {
  EXPECT_TRUE(rc::check("constant always, wsd until its decay, the others never once they have begun", [] {
    TrainConfig before;
    before.step = 4e-4;
    before.step_schedule = *rc::gen::elementOf(kNames);
    before.rounds = *rc::gen::inRange<std::uint64_t>(10, 100);  // with many, single steps round to the same
    before.warmup_rounds = *rc::gen::inRange<std::uint64_t>(0, 5);
    TrainConfig after = before;
    after.rounds = *rc::gen::inRange<std::uint64_t>(10, 100);
    RC_PRE(after.rounds != before.rounds);
    const std::uint64_t fewer = std::min(before.rounds, after.rounds);
    const auto done = *rc::gen::inRange<std::uint64_t>(0, fewer + 1);
    const std::uint64_t stable = fewer - fewer / 5 + 1;  // a decay begins with the whole step
    const bool expected =
        before.step_schedule == "constant" || done <= 1 || (before.step_schedule == "wsd" && done <= stable);
    const std::string said = refusal(before, after, done);
    RC_ASSERT(said.empty() == expected);
    if (!expected) RC_ASSERT(said.find("begin anew with --rounds") != std::string::npos);
    RC_ASSERT(said.find('\n') == std::string::npos);
  }));
}

TEST(OtherRounds, a_warm_up_is_not_changed_by_them) {
  TrainConfig before;
  before.step = 4e-4;
  before.step_schedule = "wsd";
  before.rounds = 100;
  before.warmup_rounds = 50;
  TrainConfig after = before;
  after.rounds = 1000;
  EXPECT_EQ(refusal(before, after, 60), "");
}

// --- Settings ---

std::string problem(std::uint64_t rounds, const std::string& schedule, std::uint64_t warmup,
                    double step = 1e-3, double decay = 0) {
  TrainConfig config;
  config.rounds = rounds;
  config.step_schedule = schedule;
  config.warmup_rounds = warmup;
  config.step = step;
  config.weight_decay = decay;
  try {
    resolve(config);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(ScheduleSettings, that_make_no_sense_are_refused) {
  for (const std::string& name : kNames) {
    EXPECT_EQ(problem(10, name, 5), "");
    EXPECT_NE(problem(10, name, 10).find("--warmup-rounds is 10"), std::string::npos);
    EXPECT_EQ(problem(1, name, 0), "");
  }
  EXPECT_NE(problem(10, "wsd", 8), "") << "its decay begins there";
  EXPECT_EQ(problem(10, "cosine", 8), "");
  EXPECT_NE(problem(10, "constant", 0, 0.1, 10).find("--weight-decay"), std::string::npos);
  EXPECT_EQ(problem(10, "constant", 0, 0.1, 9), "");
  EXPECT_NE(problem(1'000'000'000, "cosine", 0, 1e-30).find("ends as 0"), std::string::npos);
}

}  // namespace
}  // namespace signvote
