#include "run/loss_watch.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <string>
#include <vector>

namespace signvote {
namespace {

/// The rounds in which it said something.
std::vector<std::uint64_t> told(const std::vector<double>& losses) {
  LossWatch watch;
  std::vector<std::uint64_t> rounds;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (watch.add(i + 1, losses[i])) rounds.push_back(i + 1);
  return rounds;
}

TEST(LossWatch, is_silent_while_the_loss_stays_near_its_best) {
  EXPECT_TRUE(rc::check("a loss that falls to a floor, with noise of up to half of the floor", [] {
    const double scale = *rc::gen::element(1e-3, 1.0, 1e6);
    std::vector<double> losses;
    for (int round = 0; round < 400; ++round) {
      const double noise = *rc::gen::inRange(0, 1000) / 2000.0;
      losses.push_back(scale * (2 * std::exp(-round / 50.0) + 0.2 * (1 + noise)));
    }
    RC_ASSERT(told(losses).empty());
  }));
}

TEST(LossWatch, tells_once_when_it_is_far_above_for_long) {
  EXPECT_TRUE(rc::check("within 100 rounds of the rise, and never again", [] {
    const double scale = *rc::gen::element(1e-3, 1.0, 1e6);
    const auto good = *rc::gen::inRange<std::size_t>(40, 200);
    std::vector<double> losses(good, 0.3 * scale);
    losses[0] = 2.3 * scale;
    losses.resize(good + 300, *rc::gen::element(1.5, 4.0, 50.0) * scale + losses[0]);
    const auto rounds = told(losses);
    RC_ASSERT(rounds.size() == 1U);
    RC_ASSERT(rounds[0] >= good + LossWatch::kLong);
    RC_ASSERT(rounds[0] <= good + 100);
  }));
}

TEST(LossWatch, a_short_rise_is_no_news) {
  std::vector<double> losses(100, 0.3);
  losses[0] = 2.3;
  losses.resize(110, 9);
  losses.resize(400, 0.3);
  EXPECT_TRUE(told(losses).empty());
}

TEST(LossWatch, a_loss_that_is_no_number_is_left_out) {
  std::vector<double> losses(200, 0.3);
  for (std::size_t i = 0; i < losses.size(); i += 2) losses[i] = std::nan("");
  EXPECT_TRUE(told(losses).empty());
}

TEST(LossWatch, says_what_to_try) {
  LossWatch watch;
  std::string line;
  for (std::uint64_t round = 1; line.empty() && round < 200; ++round)
    line = watch.add(round, round <= 20 ? 0.5 : 8).value_or("");
  EXPECT_NE(line.find("far above its best (0.5 at round 1) for 50 rounds; try a smaller --step"),
            std::string::npos)
      << line;
}

}  // namespace
}  // namespace signvote
