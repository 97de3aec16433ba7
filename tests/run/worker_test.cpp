// The batch that fits a round's time, on machines of any speed.
#include "run/worker.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

namespace signvote {
namespace {

struct Machine {
  double samples_per_second = 0;
  double seconds(std::uint32_t samples) const { return samples / samples_per_second; }
};

/// From a sample in hours to a billion in a second; hardly ever a whole number of samples in a round.
Machine any_machine() { return {std::pow(10.0, *rc::gen::inRange(-4000, 9000) / 1000.0)}; }
double any_time() { return std::pow(10.0, *rc::gen::inRange(-3000, 4000) / 1000.0); }

TEST(FittingBatch, is_one_that_the_worker_can_draw) {
  EXPECT_TRUE(rc::check("within [1, share], at most eight times as many", [] {
    const auto share = *rc::gen::inRange<std::uint32_t>(1, 1'000'000);
    const auto samples = *rc::gen::inRange<std::uint32_t>(1, share + 1);
    const double seconds = *rc::gen::element(0.0, 1e-300, any_machine().seconds(samples), 1e300);
    const std::uint32_t next = fitting_batch(samples, seconds, any_time(), share);
    RC_ASSERT(next >= 1U);
    RC_ASSERT(next <= share);
    RC_ASSERT(next <= 8ULL * samples);
  }));
}

TEST(FittingBatch, changes_in_the_right_direction_if_at_all) {
  EXPECT_TRUE(rc::check("grows where there is time left, shrinks where there is not", [] {
    const auto share = *rc::gen::inRange<std::uint32_t>(1, 1'000'000);
    const auto samples = *rc::gen::inRange<std::uint32_t>(1, share + 1);
    const Machine machine = any_machine();
    const double seconds = machine.seconds(samples), round = any_time();
    const std::uint32_t next = fitting_batch(samples, seconds, round, share);
    if (next > samples) RC_ASSERT(seconds < round && machine.seconds(next) <= round * 1.000001);
    if (next < samples) RC_ASSERT(seconds > round);
    // Kept only if it is nearly right, or cannot be changed.
    if (next == samples)
      RC_ASSERT(std::abs(seconds - round) <= 0.12 * round + machine.seconds(2) ||
                (seconds > round && samples == 1) || (seconds < round && share <= 1.1 * samples));
  }));
}

TEST(FittingBatch, settles) {
  EXPECT_TRUE(rc::check("a machine of one speed soon has one batch", [] {
    const auto share = *rc::gen::inRange<std::uint32_t>(1, 1'000'000);
    const Machine machine = any_machine();
    const double round = any_time();
    // Just at a whole number of samples the last bit of a division decides.
    const double fits = machine.samples_per_second * round;
    RC_PRE(std::abs(fits - std::round(fits)) > 1e-6 * fits);
    std::uint32_t batch = std::min(share, 64U);
    for (int i = 0; i < 8; ++i) batch = fitting_batch(batch, machine.seconds(batch), round, share);
    RC_ASSERT(fitting_batch(batch, machine.seconds(batch), round, share) == batch);
    const double ideal = std::clamp(std::floor(fits), 1.0, static_cast<double>(share));
    RC_ASSERT(std::abs(batch - ideal) <= 0.12 * ideal);
  }));
}

TEST(FittingBatch, examples) {
  EXPECT_EQ(fitting_batch(64, 1, 1, 1000), 64U);
  EXPECT_EQ(fitting_batch(64, 1.05, 1, 1000), 64U) << "nearly it";
  EXPECT_EQ(fitting_batch(64, 2, 1, 1000), 32U);
  EXPECT_EQ(fitting_batch(64, 1, 2, 1000), 128U);
  EXPECT_EQ(fitting_batch(64, 1, 100, 1000), 512U) << "eight times";
  EXPECT_EQ(fitting_batch(64, 1, 100, 100), 100U) << "all there is";
  EXPECT_EQ(fitting_batch(64, 1000, 1, 1000), 1U);
}

}  // namespace
}  // namespace signvote
