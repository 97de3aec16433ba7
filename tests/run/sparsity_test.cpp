// Which coordinates a worker votes on.
#include "run/sparsity.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "signvote/error.h"
#include "tally/votes.h"

namespace signvote {
namespace {

/// Of small whole numbers, so that many are equal and sums are exact.
std::vector<float> some_values(std::size_t n, int most) {
  return *rc::gen::container<std::vector<float>>(
      n,
      rc::gen::map(rc::gen::inRange(-most, most + 1), [](int value) { return static_cast<float>(value); }));
}

/// What a stable sort by magnitude would send.
SignVector largest(const std::vector<float>& values, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return std::abs(values[i]); });
  SignVector result(values.size());
  for (std::size_t k = 0; k < count; ++k) {
    const float value = values[order[k]];
    result.set(order[k], value > 0 ? 1 : value < 0 ? -1 : 0);
  }
  return result;
}

TEST(Sparsity, sends_the_largest_and_of_equal_ones_the_first) {
  EXPECT_TRUE(rc::check("as a stable sort would", [] {
    const std::size_t n = *rc::gen::inRange<std::size_t>(1, 300);
    const Sparsity sparsity(*rc::gen::element("0.001", "0.1", "0.5", "0.99"));
    std::vector<float> unsent = some_values(n, *rc::gen::element(1, 5, 1'000'000));
    const std::vector<float> before = unsent;
    SignVector ballot;
    sparsity.send_largest(unsent, ballot);
    RC_ASSERT(ballot == largest(before, sparsity.count(n)));
    const auto zeros = static_cast<std::size_t>(std::ranges::count(before, 0.0F));
    RC_ASSERT(ballot.count_present() == std::min(sparsity.count(n), n - zeros));
    for (std::size_t i = 0; i < n; ++i) RC_ASSERT(unsent[i] == (ballot[i] == 0 ? before[i] : 0.0F));
  }));
}

TEST(Sparsity, loses_nothing_over_the_rounds) {
  EXPECT_TRUE(rc::check("what was sent and what is kept is all that came in", [] {
    const std::size_t n = *rc::gen::inRange<std::size_t>(1, 200);
    const Sparsity sparsity("0.1");
    std::vector<float> unsent(n);
    std::vector<float> sent(n);
    std::vector<float> sum(n);
    for (int round = 0; round < 20; ++round) {
      const std::vector<float> values = some_values(n, 9);
      for (std::size_t i = 0; i < n; ++i) {
        unsent[i] += values[i];
        sum[i] += values[i];
      }
      const std::vector<float> before = unsent;
      SignVector ballot;
      sparsity.send_largest(unsent, ballot);
      for (std::size_t i = 0; i < n; ++i)
        if (ballot[i] != 0) sent[i] += static_cast<float>(ballot[i]) * std::abs(before[i]);
    }
    for (std::size_t i = 0; i < n; ++i) RC_ASSERT(sent[i] + unsent[i] == sum[i]);
  }));
}

TEST(Sparsity, hears_the_smallest_in_the_end) {
  const Sparsity sparsity("0.25");
  std::vector<float> unsent(4);
  int heard = 0;
  for (int round = 0; round < 40; ++round) {
    for (std::size_t i = 0; i < 4; ++i) unsent[i] += i == 3 ? -0.125F : 1.0F;
    SignVector ballot;
    sparsity.send_largest(unsent, ballot);
    EXPECT_EQ(ballot.count_present(), 1U);
    heard += ballot[3] == -1 ? 1 : 0;
  }
  EXPECT_GE(heard, 1);
}

TEST(Sparsity, orders_magnitudes_of_any_size) {
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  constexpr float kHuge = std::numeric_limits<float>::infinity();
  std::vector<float> unsent = {0.0F, kTiny, -0.0F, -kHuge, 1e30F, -1e-30F, 1.0F, 1.0000001F};
  for (const std::size_t next : {3, 4, 7, 6, 5, 1}) {
    SignVector ballot;
    Sparsity("0.01").send_largest(unsent, ballot);
    EXPECT_EQ(ballot.count_present(), 1U);
    EXPECT_NE(ballot[next], 0) << next;
  }
  SignVector ballot;
  Sparsity("0.01").send_largest(unsent, ballot);
  EXPECT_EQ(ballot, SignVector(8)) << "zeros have no sign";
}

TEST(Sparsity, thins_at_random) {
  EXPECT_TRUE(rc::check("to so many coordinates, with the signs that they had", [] {
    const std::size_t n = *rc::gen::inRange<std::size_t>(1, 2000);
    const Sparsity sparsity(*rc::gen::element("random:0.001", "random:0.1", "random:0.7"));
    std::mt19937_64 random(n);
    const SignVector honest = testing::random_signs(n, 0, random);
    const auto thinned = [&](std::uint64_t round, std::uint32_t worker) {
      SignVector ballot = honest;
      sparsity.thin(1, round, worker, ballot);
      return ballot;
    };
    const SignVector ballot = thinned(3, 2);
    RC_ASSERT(ballot.count_present() == sparsity.count(n));
    for (std::size_t i = 0; i < n; ++i) RC_ASSERT(ballot[i] == 0 || ballot[i] == honest[i]);
    RC_ASSERT(ballot == thinned(3, 2));
    if (n > 500 && sparsity.count(n) > 50) {
      RC_ASSERT(ballot != thinned(4, 2));
      RC_ASSERT(ballot != thinned(3, 1));
    }
  }));
}

TEST(Sparsity, of_one_is_dense) {
  std::mt19937_64 random(1);
  const SignVector honest = testing::random_signs(500, 0.2, random);
  for (const char* text : {"1", "random:1", "1.0"}) {
    EXPECT_FALSE(Sparsity(text).keeps_unsent()) << text;
    SignVector ballot = honest;
    Sparsity(text).thin(1, 2, 3, ballot);
    EXPECT_EQ(ballot, honest) << text;
  }
  EXPECT_TRUE(Sparsity("0.5").keeps_unsent());
  EXPECT_FALSE(Sparsity("random:0.5").keeps_unsent());
}

TEST(Sparsity, that_makes_no_sense_is_refused) {
  for (const char* text :
       {"", "0", "-0.1", "1.1", "x", "nan", "random", "random:", "random:0", "top:0.1", "0.1:2"})
    EXPECT_THROW(Sparsity{text}, ConfigError) << text;
}

}  // namespace
}  // namespace signvote
