// Random streams: uniform, without bias, a function of their name, and never another tomorrow.
#include "base/random.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace signvote {
namespace {

constexpr std::uint64_t kAll = ~std::uint64_t{0};

// Pearson's statistic of counts that should all be equal.
double chi_square(const std::vector<std::size_t>& counts) {
  const double expected = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::size_t{0})) /
                          static_cast<double>(counts.size());
  double sum = 0;
  for (const std::size_t count : counts) {
    const double off = static_cast<double>(count) - expected;
    sum += off * off / expected;
  }
  return sum;
}

// It has mean f and variance 2f for f degrees of freedom. Seeds are fixed, so this never flickers.
bool uniform(const std::vector<std::size_t>& counts) {
  const auto freedom = static_cast<double>(counts.size() - 1);
  return chi_square(counts) <= freedom + 5 * std::sqrt(2 * freedom);
}

std::vector<std::uint64_t> first_bits(Random random) {
  std::vector<std::uint64_t> bits(4);
  for (auto& word : bits) word = random.bits();
  return bits;
}

TEST(Random, below_stays_below) {
  EXPECT_TRUE(rc::check("0 <= below(bound) < bound", [](std::uint64_t seed) {
    const auto bound =
        *rc::gen::oneOf(rc::gen::nonZero<std::uint64_t>(),
                        rc::gen::map(rc::gen::inRange(0, 64), [](int k) { return kAll >> k; }));
    Random random(seed, Purpose::samples);
    for (int i = 0; i < 20; ++i) RC_ASSERT(random.below(bound) < bound);
  }));
}

TEST(Random, below_is_uniform) {
  for (const std::size_t bound : {1U, 2U, 3U, 7U, 10U, 64U, 1000U}) {
    Random random(1, Purpose::samples, bound);
    std::vector<std::size_t> counts(bound);
    for (std::size_t i = 0; i < 200 * bound; ++i) ++counts[random.below(bound)];
    EXPECT_TRUE(uniform(counts)) << "bound " << bound << ": " << chi_square(counts);
  }
}

// A plain remainder would give the lower third of these bounds twice the share of the others.
TEST(Random, below_has_no_bias_at_huge_bounds) {
  const std::uint64_t bound = (1ULL << 63) + (1ULL << 62);
  Random random(1, Purpose::samples);
  std::vector<std::size_t> thirds(3);
  for (int i = 0; i < 3000; ++i) ++thirds[random.below(bound) / (1ULL << 62)];
  EXPECT_TRUE(uniform(thirds)) << chi_square(thirds);
}

TEST(Random, distinct_numbers_are_distinct_and_in_range) {
  EXPECT_TRUE(rc::check("count different ones below bound", [](std::uint64_t seed) {
    const auto bound = *rc::gen::inRange<std::uint32_t>(0, 300);
    const auto count = *rc::gen::inRange<std::uint32_t>(0, bound + 1);
    const std::vector<std::uint32_t> numbers = Random(seed, Purpose::samples).distinct(count, bound);
    RC_ASSERT(numbers.size() == count);
    RC_ASSERT(std::set<std::uint32_t>(numbers.begin(), numbers.end()).size() == count);
    for (const std::uint32_t number : numbers) RC_ASSERT(number < bound);
  }));
}

TEST(Random, distinct_numbers_are_equally_likely_in_every_place) {
  for (const auto& [count, bound] : {std::pair{1U, 10U}, {3U, 10U}, {9U, 10U}, {10U, 10U}, {7U, 50U}}) {
    std::vector<std::size_t> chosen(bound);
    std::vector<std::size_t> places(std::size_t{count} * bound);
    for (std::uint64_t i = 0; i < 10'000; ++i) {
      const auto numbers = Random(2, Purpose::samples, bound, i).distinct(count, bound);
      for (std::size_t place = 0; place < count; ++place) {
        ++chosen[numbers[place]];
        ++places[place * bound + numbers[place]];
      }
    }
    EXPECT_TRUE(uniform(chosen)) << count << " of " << bound << ": " << chi_square(chosen);
    EXPECT_TRUE(uniform(places)) << count << " of " << bound << ": " << chi_square(places);
  }
}

// Every set, not only every element: 3 of 6 are 20 sets.
TEST(Random, distinct_sets_are_equally_likely) {
  std::vector<std::size_t> masks(64);
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    std::size_t mask = 0;
    for (const std::uint32_t number : Random(3, Purpose::samples, 0, i).distinct(3, 6)) mask |= 1U << number;
    ++masks[mask];
  }
  std::erase(masks, 0U);
  EXPECT_EQ(masks.size(), 20U);
  EXPECT_TRUE(uniform(masks)) << chi_square(masks);
}

TEST(Random, shuffle_keeps_its_items) {
  EXPECT_TRUE(rc::check("a permutation", [](std::uint64_t seed, const std::vector<int>& items) {
    std::vector<int> shuffled = items;
    Random(seed, Purpose::partition).shuffle(std::span(shuffled));
    RC_ASSERT(std::is_permutation(shuffled.begin(), shuffled.end(), items.begin(), items.end()));
  }));
}

TEST(Random, shuffles_are_equally_likely) {
  std::vector<std::size_t> counts(24);
  for (std::uint64_t i = 0; i < 24'000; ++i) {
    std::string items = "abcd";
    Random(4, Purpose::partition, i).shuffle(std::span(items));
    std::size_t rank = 0;
    for (std::string order = "abcd"; order != items; std::next_permutation(order.begin(), order.end()))
      ++rank;
    ++counts[rank];
  }
  EXPECT_TRUE(uniform(counts)) << chi_square(counts);
}

TEST(Random, a_stream_is_a_function_of_its_name) {
  EXPECT_TRUE(rc::check("the same again; another for another seed, purpose, a or b",
                        [](std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
                          const auto purpose = *rc::gen::element(Purpose::partition, Purpose::samples);
                          const auto offset = *rc::gen::nonZero<std::uint64_t>();
                          const auto stream = first_bits({seed, purpose, a, b});
                          RC_ASSERT(first_bits({seed, purpose, a, b}) == stream);
                          RC_ASSERT(first_bits({seed + offset, purpose, a, b}) != stream);
                          RC_ASSERT(first_bits({seed, Purpose::augment, a, b}) != stream);
                          RC_ASSERT(first_bits({seed, purpose, a + offset, b}) != stream);
                          RC_ASSERT(first_bits({seed, purpose, a, b + offset}) != stream);
                          if (a != b) RC_ASSERT(first_bits({seed, purpose, b, a}) != stream);
                        }));
}

// Runs recorded with earlier versions must be repeatable: if this fails, the stream has changed.
TEST(Random, the_streams_are_those_of_version_1) {
  EXPECT_EQ(first_bits({0, Purpose::partition}),
            (std::vector<std::uint64_t>{16864950399531439897U, 7567337061835189359U, 10690733156718581603U,
                                        10503334487372601123U}));
  EXPECT_EQ(first_bits({42, Purpose::samples, 3, 1000}),
            (std::vector<std::uint64_t>{2854475424031331919U, 13941996060848503922U, 9055712700469659736U,
                                        4717112242904097682U}));
  EXPECT_EQ(Random(42, Purpose::augment, 3, 1000).below(1'000'000'007), 441011333U);
  EXPECT_EQ(Random(42, Purpose::samples, 3, 1000).distinct(8, 60'000),
            (std::vector<std::uint32_t>{32768, 39591, 51059, 25678, 33636, 50126, 10074, 56592}));
}

}  // namespace
}  // namespace signvote
