// Reliability from agreement alone: does it find the true error rates, and does the tally vote by them?
#include "tally/agreement.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <random>

#include "signvote/error.h"
#include "signvote/tally.h"
#include "tally/script.h"
#include "tally/votes.h"

namespace signvote {
namespace {

using testing::all_present;
using testing::make_script;
using testing::random_signs;
using testing::Script;
using testing::through_channel;

/// The numbers of a round in which every pair votes on 10^6 coordinates and agrees as q says.
std::vector<std::int64_t> round_of(const std::vector<double>& q) {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 1; i < q.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      numbers.push_back(1'000'000);
      numbers.push_back(std::llround(1e6 * q[i] * q[j]));
    }
  return numbers;
}

constexpr std::int64_t kForget = Agreement::kShare / 256;

Agreement after(const std::vector<double>& q, int rounds) {
  Agreement agreement(static_cast<std::uint32_t>(q.size()), kForget);
  for (int t = 0; t < rounds; ++t) agreement.add(round_of(q));
  return agreement;
}

TEST(Agreement, tells_the_error_rates) {
  EXPECT_TRUE(rc::check("also of liars, if most are honest", [] {
    const auto workers = *rc::gen::inRange<std::size_t>(5, 30);
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint32_t>());
    std::uniform_real_distribution<double> uniform(0.1, 0.9);
    std::vector<double> q(workers);
    for (double& value : q) value = uniform(random);
    q[0] = -0.3;
    const auto found = after(q, 3).correctness(1);
    // One prior round pulls every pair a little to the mean.
    const auto nearly = after(q, 600).correctness(1);
    for (std::size_t m = 0; m < workers; ++m) {
      RC_ASSERT(std::abs(nearly[m] - q[m]) < 0.02);
      RC_ASSERT((found[m] > found[0]) == (m != 0));
    }
  }));
}

TEST(Agreement, takes_workers_for_equals_at_first) {
  const std::vector<double> q = {0.1, 0.1, 0.1, 0.1, 0.8};
  const auto spread = [](const std::vector<double>& values) { return values.back() / values.front(); };
  const double at_once = spread(after(q, 1).correctness(1000));
  EXPECT_NEAR(at_once, 1, 0.05);
  EXPECT_LT(at_once, spread(after(q, 20).correctness(30)));
  EXPECT_LT(spread(after(q, 20).correctness(30)), spread(after(q, 200).correctness(30)));
}

TEST(Agreement, forgets) {
  std::vector<double> q = {0.5, 0.5, 0.5, 0.5, 0.5};
  Agreement agreement = after(q, 300);
  q[0] = -0.5;  // from now on a liar
  for (int t = 0; t < 600; ++t) agreement.add(round_of(q));
  EXPECT_LT(agreement.correctness(1)[0], -0.3);
  EXPECT_GT(agreement.correctness(1)[1], 0.4);
  agreement.forget(0);
  EXPECT_GT(agreement.correctness(1)[0], 0) << "nothing is known of it: it is taken for one of the others";
}

/// Rounds until worker 0, honest for 300 rounds and then a liar, is known for one.
int rounds_to_find_a_liar(double forget) {
  Agreement agreement(5, std::llround(forget * static_cast<double>(Agreement::kShare)));
  std::vector<double> q = {0.5, 0.5, 0.5, 0.5, 0.5};
  for (int t = 0; t < 300; ++t) agreement.add(round_of(q));
  q[0] = -0.5;
  int rounds = 0;
  for (; agreement.correctness(1)[0] > 0; ++rounds) agreement.add(round_of(q));
  return rounds;
}

TEST(Agreement, finds_a_new_liar_the_sooner_the_more_it_forgets) {
  EXPECT_LT(rounds_to_find_a_liar(0.1), rounds_to_find_a_liar(1.0 / 64) / 2);
  EXPECT_LT(rounds_to_find_a_liar(1.0 / 64), rounds_to_find_a_liar(1.0 / 256) / 2);
  EXPECT_LT(rounds_to_find_a_liar(1.0 / 256), rounds_to_find_a_liar(0));
}

TEST(Agreement, forgets_its_share_exactly) {
  EXPECT_TRUE(rc::check("also of numbers whose product with it would not fit", [] {
    const auto known = *rc::gen::inRange<std::int64_t>(-(1LL << 58), 1LL << 58);
    Agreement agreement(2, 256);
    agreement.set_state(std::vector<std::int64_t>{known, known, 0});
    agreement.add(std::vector<std::int64_t>{3, -2});
    RC_ASSERT(agreement.state()[0] == known - known / 256 + 3);
    RC_ASSERT(agreement.state()[1] == known - known / 256 - 2);
  }));
}

/// What is found of workers of whom the first `colluders` all vote the same (to one, `together`) and know
/// nothing.
std::vector<double> among_colluders(std::vector<double> q, std::size_t colluders, double together = 1) {
  std::fill_n(q.begin(), colluders, 0);
  std::vector<std::int64_t> numbers = round_of(q);
  for (std::size_t pair = 0; pair < colluders * (colluders - 1) / 2; ++pair)
    numbers[2 * pair + 1] = std::llround(1e6 * together);
  Agreement agreement(static_cast<std::uint32_t>(q.size()), kForget);
  for (int t = 0; t < 600; ++t) agreement.add(numbers);
  return agreement.correctness(default_prior_rounds(Method::agree));
}

TEST(Agreement, is_not_taken_in_by_colluders) {
  EXPECT_TRUE(rc::check("three of fifteen, whoever the others are", [] {
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint32_t>());
    std::uniform_real_distribution<double> uniform(0.15, 0.6);
    std::vector<double> q(15);
    for (double& value : q) value = uniform(random);
    const double together = *rc::gen::inRange(30, 101) / 100.0;
    const auto found = among_colluders(q, 3, together);
    for (std::size_t m = 0; m < q.size(); ++m) RC_ASSERT(std::abs(found[m] - (m < 3 ? 0 : q[m])) < 0.05);
  }));
}

// The table of docs/attackers.md.
TEST(Agreement, bears_so_many_colluders_of_fifteen) {
  const auto borne = [](std::vector<double> q) {
    for (std::size_t colluders = 1;; ++colluders) {
      q[colluders - 1] = 0;
      const auto found = among_colluders(q, colluders);
      for (std::size_t m = 0; m < q.size(); ++m)
        if (std::abs(found[m] - q[m]) > 0.1) return colluders - 1;
    }
  };
  const auto one_among_14 = [](double best, double others) {
    std::vector<double> q(15, others);
    q.back() = best;
    return q;
  };
  EXPECT_EQ(borne(std::vector<double>(15, 0.2)), 7);
  EXPECT_EQ(borne(std::vector<double>(15, 0.6)), 5);
  EXPECT_EQ(borne(one_among_14(0.6, 0.1)), 6);
  EXPECT_EQ(borne(one_among_14(0.8, 0.05)), 2);
}

TEST(Agreement, says_nothing_of_two) {
  EXPECT_EQ(after({0.9, 0.1}, 10).correctness(1), (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(Agreement(4, kForget).correctness(1), (std::vector<double>{0.5, 0.5, 0.5, 0.5}))
      << "before the first round";
}

TEST(Agreement, weighs_by_the_log_likelihood_ratio) {
  for (double p = 0.002; p < 1; p += 0.001)
    EXPECT_NEAR(Agreement::weight(1 - 2 * p, 10), std::clamp(std::log((1 - p) / p), -10.0, 10.0), 1e-8);
  EXPECT_EQ(Agreement::weight(0.99, 2), 2);
  EXPECT_EQ(Agreement::weight(-0.99, 2), -2);
  EXPECT_EQ(Agreement::weight(0, 2), 0);
}

TEST(Agree, votes_by_its_weights) {
  EXPECT_TRUE(rc::check("those of the rounds before; near-ties may go either way", [](std::uint64_t seed) {
    const auto n = *rc::gen::inRange<std::size_t>(1, 700);
    const auto workers = *rc::gen::inRange<std::uint32_t>(1, 40);
    Script script = make_script(seed, n, workers, 12, 0.1, 3);
    script.options.method = Method::agree;
    Tally tally(script.options);
    SignVector verdict;
    for (const auto& ballots : script.present) {
      const std::vector<double> weights = tally.worker_weights();
      std::vector<bool> mature;
      for (std::uint32_t m = 0; m < workers; ++m) mature.push_back(tally.rounds_of(m) >= 3);
      tally.decide(ballots, verdict);
      if (!tally.weighted()) continue;
      double largest = 0;
      for (std::uint32_t m = 0; m < workers; ++m)
        if (ballots[m] && mature[m]) largest += std::abs(weights[m]);
      if (largest == 0) continue;  // nobody was mature
      for (std::size_t i = 0; i < n; ++i) {
        double sum = 0;
        for (std::uint32_t m = 0; m < workers; ++m)
          if (ballots[m] && mature[m]) sum += weights[m] * (*ballots[m])[i];
        if (std::abs(sum) > largest * workers / 32'000) RC_ASSERT(verdict[i] == (sum > 0 ? 1 : -1));
      }
    }
  }));
}

TEST(Agree, gives_a_liar_a_negative_weight_and_the_best_the_largest) {
  std::mt19937_64 random(5);
  Tally tally({Method::agree, 7, 0, 5000, 5, 10});
  const std::vector<double> p = {0.4, 0.4, 0.4, 0.4, 0.4, 0.1, 0.8};
  SignVector verdict;
  for (int t = 0; t < 60; ++t) {
    const SignVector truth = random_signs(5000, 0.1, random);
    std::vector<SignVector> ballots;
    for (const double rate : p) ballots.push_back(through_channel(truth, rate, random));
    tally.decide(all_present(ballots), verdict);
  }
  const std::vector<double> weights = tally.worker_weights();
  for (std::size_t m = 0; m < 5; ++m) {
    EXPECT_GT(weights[m], 0) << m;
    EXPECT_GT(weights[5], 2 * weights[m]) << m;
  }
  EXPECT_LT(weights[6], 0);
}

TEST(Agree, refuses_what_it_cannot_do) {
  EXPECT_THROW(Tally({Method::agree, 513, 0, 64, 5, 10}), ConfigError);
  EXPECT_THROW(Tally({Method::agree, 3, 32, 64, 5, 10}), ConfigError);
  Tally tally({Method::agree, 3, 0, 64, 5, 10});
  EXPECT_THROW(tally.set_pooled({1, 2, 0, 0, 0, 0}), DataError) << "more agreement than coordinates";
  EXPECT_THROW(tally.set_pooled({1, 1}), DataError);
}

}  // namespace
}  // namespace signvote
