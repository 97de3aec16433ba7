// Workers that lie, for experiments.
#include "run/attack.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "signvote/error.h"
#include "tally/votes.h"

namespace signvote {
namespace {

SignVector some_ballot(std::size_t n) {
  std::mt19937_64 random(n);
  return testing::random_signs(n, 0.2, random);
}

SignVector said(const std::string& attack, std::uint64_t round, std::uint32_t worker, SignVector ballot) {
  Attack(attack).apply(1, round, worker, ballot);
  return ballot;
}

/// How many signs differ, and none of them is an abstention.
std::size_t flipped(const SignVector& a, const SignVector& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i] == 0, b[i] == 0);
    count += a[i] != b[i] ? 1 : 0;
  }
  return count;
}

TEST(Attack, only_the_first_workers_lie) {
  const SignVector honest = some_ballot(1000);
  for (const char* attack : {"", "flip:2", "flip:2:0.5", "late:2:1", "zero:2", "collude:2"}) {
    EXPECT_EQ(said(attack, 5, 2, honest), honest) << attack;
    if (*attack != 0) {
      EXPECT_NE(said(attack, 5, 1, honest), honest) << attack;
    }
  }
}

TEST(Attack, flips) {
  EXPECT_TRUE(rc::check("all signs, a share of them, or all from some round on", [] {
    const SignVector honest = some_ballot(*rc::gen::inRange<std::size_t>(1, 3000));
    const std::size_t signs = honest.count_present();
    RC_ASSERT(flipped(said("flip:1", 0, 0, honest), honest) == signs);
    RC_ASSERT(said("flip:1", 1, 0, said("flip:1", 0, 0, honest)) == honest);
    RC_ASSERT(flipped(said("late:1:7", 5, 0, honest), honest) == 0U);
    RC_ASSERT(flipped(said("late:1:7", 6, 0, honest), honest) == signs);
  }));
  const SignVector honest = some_ballot(100'000);
  const double share = static_cast<double>(flipped(said("flip:1:0.3", 4, 0, honest), honest)) /
                       static_cast<double>(honest.count_present());
  EXPECT_NEAR(share, 0.3, 0.01);
  EXPECT_NE(said("flip:1:0.3", 4, 0, honest), said("flip:1:0.3", 5, 0, honest)) << "drawn anew";
  EXPECT_EQ(said("flip:1:0.3", 4, 0, honest), said("flip:1:0.3", 4, 0, honest)) << "and to the same";
}

TEST(Attack, abstains_or_colludes) {
  const SignVector honest = some_ballot(500);
  EXPECT_EQ(said("zero:1", 0, 0, honest), SignVector(500));
  EXPECT_EQ(said("collude:2", 3, 0, honest), said("collude:2", 3, 1, SignVector(500)));
  EXPECT_NE(said("collude:2", 3, 0, honest), said("collude:2", 4, 0, honest));
  EXPECT_EQ(said("collude:2", 3, 0, honest).count_present(), 500U);
}

std::vector<float> noisy(const std::string& attack, std::uint64_t round, std::uint32_t worker,
                         std::vector<float> gradient) {
  Attack(attack).add_noise(1, round, worker, gradient);
  return gradient;
}

TEST(Attack, noise_is_as_large_as_asked_for) {
  EXPECT_TRUE(rc::check("its mean, its size beside the gradient's and what lies within one sigma", [] {
    const double sigma = *rc::gen::element(0.1, 1.0, 3.0);
    const double size = *rc::gen::element(1e-12, 1e-3, 10.0);  // of the gradient
    constexpr std::size_t kCount = 40'000;
    std::vector<float> gradient(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      gradient[i] = static_cast<float>(i % 2 == 0 ? 0 : std::sqrt(2.0) * size);
    const auto result = noisy(fmt::format("noise:2:{}", sigma), *rc::gen::inRange<std::uint64_t>(0, 999),
                              *rc::gen::inRange<std::uint32_t>(0, 2), gradient);
    double sum = 0;
    double squares = 0;
    std::size_t within = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double noise = (static_cast<double>(result[i]) - gradient[i]) / (sigma * size);
      sum += noise;
      squares += noise * noise;
      within += std::abs(noise) < 1 ? 1 : 0;
    }
    RC_ASSERT(std::abs(sum / kCount) < 0.03);
    RC_ASSERT(std::abs(squares / kCount - 1) < 0.05);
    RC_ASSERT(std::abs(static_cast<double>(within) / kCount - 0.6827) < 0.02);  // as of the normal one
  }));
}

TEST(Attack, noise_is_drawn_anew_for_worker_and_round) {
  const std::vector<float> gradient(1000, 1.0F);
  EXPECT_EQ(noisy("noise:2:1", 4, 0, gradient), noisy("noise:2:1", 4, 0, gradient));
  EXPECT_NE(noisy("noise:2:1", 4, 0, gradient), noisy("noise:2:1", 5, 0, gradient));
  EXPECT_NE(noisy("noise:2:1", 4, 0, gradient), noisy("noise:2:1", 4, 1, gradient));
  EXPECT_TRUE(Attack("noise:2:1").adds_noise(1));
  EXPECT_FALSE(Attack("noise:2:1").adds_noise(2));
  EXPECT_FALSE(Attack("flip:2").adds_noise(1));
  const SignVector honest = some_ballot(100);
  EXPECT_EQ(said("noise:2:1", 4, 0, honest), honest) << "it is in the gradient already";
}

TEST(Attack, noise_hides_no_gradient_that_is_not_finite) {
  std::vector<float> gradient(100, 1.0F);
  gradient[70] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(noisy("noise:1:1", 0, 0, gradient), gradient);
  EXPECT_EQ(noisy("noise:1:1", 0, 0, std::vector<float>(100)), std::vector<float>(100)) << "nor one of zeros";
}

TEST(Attack, that_makes_no_sense_is_refused) {
  for (const char* text : {"flip", "flip:", "flip:0", "flip:x", "flip:1:0", "flip:1:1.5", "flip:1:0.5:2",
                           "late:1", "late:1:0", "zero:1:2", "collude", "noise:1", "noise:1:0", "noise:1:x",
                           "noise:0:1", "noise:1:inf", "noise:1:1:1", ":", "flip:-1"})
    EXPECT_THROW(Attack{text}, ConfigError) << text;
}

}  // namespace
}  // namespace signvote
