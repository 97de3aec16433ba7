// Histories of bounded length.
#include "report/history.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace signvote {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::vector<double> column(const History& history, std::size_t column) {
  std::vector<double> numbers;
  for (std::size_t row = 0; row < history.size(); ++row) numbers.push_back(history.number(row, column));
  return numbers;
}

std::vector<std::uint64_t> rounds(const History& history) {
  std::vector<std::uint64_t> all;
  for (std::size_t row = 0; row < history.size(); ++row) all.push_back(history.round(row));
  return all;
}

TEST(History, keeps_every_row_while_there_is_room) {
  History history(2, 4, History::Merge::mean);
  EXPECT_TRUE(history.empty());
  for (std::uint64_t i = 1; i <= 4; ++i) history.add(10 * i, {static_cast<double>(i), -1.0});
  EXPECT_EQ(rounds(history), (std::vector<std::uint64_t>{10, 20, 30, 40}));
  EXPECT_EQ(column(history, 0), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(history.thinned(), 0U);
}

TEST(History, merges_neighbours_when_it_is_full) {
  History history(1, 4, History::Merge::mean);
  for (std::uint64_t i = 1; i <= 5; ++i) history.add(i, {static_cast<double>(i)});
  EXPECT_EQ(rounds(history), (std::vector<std::uint64_t>{2, 4, 5}));
  EXPECT_EQ(column(history, 0), (std::vector<double>{1.5, 3.5, 5}));
  EXPECT_EQ(history.thinned(), 1U);
  history.add(6, {6});  // belongs to the last row
  EXPECT_EQ(rounds(history), (std::vector<std::uint64_t>{2, 4, 6}));
  EXPECT_EQ(column(history, 0), (std::vector<double>{1.5, 3.5, 5.5}));
  EXPECT_EQ(history.thinned(), 1U);
}

TEST(History, an_odd_last_row_waits_for_its_neighbour) {
  History history(1, 3, History::Merge::mean);
  for (std::uint64_t i = 1; i <= 4; ++i) history.add(i, {static_cast<double>(i)});
  EXPECT_EQ(rounds(history), (std::vector<std::uint64_t>{2, 4}));
  EXPECT_EQ(column(history, 0), (std::vector<double>{1.5, 3.5}));
}

TEST(History, can_keep_the_later_of_two) {
  History history(1, 2, History::Merge::later);
  for (std::uint64_t i = 1; i <= 3; ++i) history.add(i, {static_cast<double>(i)});
  EXPECT_EQ(column(history, 0), (std::vector<double>{2, 3}));
}

TEST(History, what_is_missing_takes_its_neighbours_number) {
  History history(2, 2, History::Merge::mean);
  history.add(1, {kNone, kNone});
  history.add(2, {4, kNone});
  history.add(3, {1, 1});
  EXPECT_EQ(history.number(0, 0), 4);
  EXPECT_TRUE(std::isnan(history.number(0, 1)));
}

RC_GTEST_PROP(History, is_bounded_and_loses_no_sum, (std::vector<int> numbers)) {
  const auto capacity = *rc::gen::inRange<std::size_t>(2, 9);
  History history(1, capacity, History::Merge::mean);
  std::uint64_t round = 0;
  for (const int number : numbers) {
    history.add(++round, {static_cast<double>(number % 1000)});
    RC_ASSERT(history.size() <= capacity);
    RC_ASSERT(history.round(history.size() - 1) == round);
    for (std::size_t row = 1; row < history.size(); ++row)
      RC_ASSERT(history.round(row - 1) < history.round(row));
  }
  // Each row is the mean of the rounds since the one before it.
  std::size_t at = 0;
  for (std::size_t row = 0; row < history.size(); ++row) {
    double sum = 0;
    const std::size_t from = at;
    for (; at < history.round(row); ++at) sum += numbers[at] % 1000;
    RC_ASSERT(std::abs(history.number(row, 0) - sum / static_cast<double>(at - from)) < 1e-6);
  }
}

TEST(History, a_long_run_keeps_at_least_half_of_its_rows) {
  History history(1, 400, History::Merge::mean);
  for (std::uint64_t round = 1; round <= 100'000; ++round) history.add(round, {1});
  EXPECT_GE(history.size(), 200U);
  EXPECT_LE(history.size(), 400U);
}

}  // namespace
}  // namespace signvote
