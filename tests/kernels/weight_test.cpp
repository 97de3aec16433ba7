// The integer weight against the exact LLR, for every count there is, whole or with a prior's fraction.
#include "kernels/weight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace signvote {
namespace {

constexpr std::uint32_t kNumbers = 1U << 24;  // what a float32 holds exactly

TEST(Weight, the_upper_half_of_a_float) {
  for (std::uint32_t x = 0; x < kNumbers; ++x)
    ASSERT_EQ(float_bits(x),
              static_cast<std::int16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(x)) >> 16))
        << x;
}

// weight is a difference of two logarithms, rounded once, so the bound on it follows from the error of
// each: all 2^24 of them are looked at, and with them every (c, t), and every prior.
TEST(Weight, stays_within_the_documented_bound_of_the_exact_llr) {
  double above = 0;
  double below = 0;
  for (std::uint32_t x = 1; x < kNumbers; ++x) {
    const int bits = float_bits(x);
    const int fraction = bits & 127;
    const double units = bits - 127 * 128 + fraction * (128 - fraction) * kLogBulge / 32768.0;
    const double error = units - 128 * std::log2(static_cast<double>(x));
    above = std::max(above, error);
    below = std::max(below, -error);
  }
  EXPECT_LE((above + below + 0.5) * kNatsPerUnit, kWeightErrorNats);
  RecordProperty("largest_error_nats", std::to_string((above + below + 0.5) * kNatsPerUnit));
}

TEST(Weight, matches_the_llr_directly_for_many_counts) {
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

// Every count of some rounds, with priors of every size: c + prior wrong of 2 * (rounds + prior_rounds).
TEST(Weight, matches_the_llr_directly_with_a_prior) {
  const std::int16_t clip = clip_units(10);
  for (const std::uint32_t rounds : {1U, 3U, 100U, 9999U, 32766U})
    for (const std::uint32_t prior_rounds : {1U, 30U, 16383U}) {
      const std::uint32_t most = 2 * prior_rounds * kPriorUnits;
      for (const std::uint32_t units : {0U, 1U, 77U, most / 3, most / 2, most - 1, most}) {
        const float prior = static_cast<float>(units) / kPriorUnits;
        const auto twice = static_cast<float>(2 * (rounds + prior_rounds));
        for (std::uint32_t c = 0; c <= 2 * rounds; ++c) {
          const double wrong = c + static_cast<double>(units) / kPriorUnits;
          const double llr = std::clamp(std::log((twice - wrong) / wrong), -10.0, 10.0);
          const auto half_errors = static_cast<std::uint16_t>(c);
          const std::int16_t got = weight(half_errors, prior, twice, clip);
          ASSERT_NEAR(got * kNatsPerUnit, llr, kWeightErrorNats) << c << ' ' << prior << ' ' << twice;
          ASSERT_EQ(got, -weight(static_cast<std::uint16_t>(2 * rounds - c),
                                 static_cast<float>(most - units) / kPriorUnits, twice, clip));
          if (units == 0) {
            ASSERT_EQ(weight(half_errors, 0, static_cast<float>(2 * rounds), clip),
                      weight(half_errors, rounds, clip));
          }
        }
      }
    }
}

TEST(Weight, is_antisymmetric_and_zero_at_one_half) {
  const std::int16_t clip = clip_units(10);
  for (const std::uint32_t rounds : {1U, 5U, 100U, 777U, 32766U}) {
    EXPECT_EQ(weight(static_cast<std::uint16_t>(rounds), rounds, clip), 0);
    for (std::uint32_t c = 0; c <= 2 * rounds; ++c)
      ASSERT_EQ(weight(static_cast<std::uint16_t>(c), rounds, clip),
                -weight(static_cast<std::uint16_t>(2 * rounds - c), rounds, clip));
  }
}

TEST(Weight, never_passes_the_clip) {
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
