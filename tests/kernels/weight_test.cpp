// The integer weight against the exact LLR, for every count there is.
#include "kernels/weight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace signvote {
namespace {

double exact_log_units(std::uint32_t x) { return 128 * std::log2(static_cast<double>(x)); }

TEST(Weight, KnotsAreTheLogarithm) {
  for (int k = 0; k <= 16; ++k)
    EXPECT_EQ(kLogKnots[static_cast<std::size_t>(k)], std::lround(128 * std::log2(1 + k / 16.0)));
}

TEST(Weight, LogarithmGrows) {
  for (std::uint32_t x = 1; x < 65535; ++x)
    ASSERT_LE(log_units(static_cast<std::uint16_t>(x)), log_units(static_cast<std::uint16_t>(x + 1))) << x;
}

// weight is a difference of two logarithms, so the bound on it follows from the error of each: all
// 65,535 of them are looked at, and with them every (c, t).
TEST(Weight, StaysWithinTheDocumentedBoundOfTheExactLlr) {
  double above = 0;
  double below = 0;
  for (std::uint32_t x = 1; x <= 65535; ++x) {
    const double error = log_units(static_cast<std::uint16_t>(x)) - exact_log_units(x);
    above = std::max(above, error);
    below = std::max(below, -error);
  }
  EXPECT_LE((above + below) * kNatsPerUnit, kWeightErrorNats);
  EXPECT_LE(kWeightErrorNats, 0.02);
  RecordProperty("largest_error_nats", std::to_string((above + below) * kNatsPerUnit));
}

TEST(Weight, MatchesTheLlrDirectlyForManyCounts) {
  const std::int16_t clip = clip_units(10);
  for (const std::uint32_t rounds : {1U, 2U, 3U, 7U, 100U, 150U, 1000U, 9999U, 32766U}) {
    for (std::uint32_t c = 0; c <= 2 * rounds; ++c) {
      const double p = c / (2.0 * rounds);
      const double llr = std::clamp(std::log((1 - p) / p), -10.0, 10.0);
      const double got = weight(static_cast<std::uint16_t>(c), rounds, clip) * kNatsPerUnit;
      ASSERT_NEAR(got, llr, kWeightErrorNats) << "c " << c << " t " << rounds;
    }
  }
}

TEST(Weight, IsAntisymmetricAndZeroAtOneHalf) {
  const std::int16_t clip = clip_units(10);
  for (const std::uint32_t rounds : {1U, 5U, 100U, 777U, 32766U}) {
    EXPECT_EQ(weight(static_cast<std::uint16_t>(rounds), rounds, clip), 0);
    for (std::uint32_t c = 0; c <= 2 * rounds; ++c)
      ASSERT_EQ(weight(static_cast<std::uint16_t>(c), rounds, clip),
                -weight(static_cast<std::uint16_t>(2 * rounds - c), rounds, clip));
  }
}

TEST(Weight, NeverPassesTheClip) {
  for (const double clip : {0.01, 1.0, 3.5, 10.0, kMaxClip}) {
    const std::int16_t units = clip_units(clip);
    EXPECT_NEAR(units * kNatsPerUnit, clip, kNatsPerUnit);
    for (const std::uint32_t rounds : {1U, 100U, 32766U}) {
      EXPECT_EQ(weight(0, rounds, units), units);
      EXPECT_EQ(weight(static_cast<std::uint16_t>(2 * rounds), rounds, units), -units);
    }
  }
}

}  // namespace
}  // namespace signvote
