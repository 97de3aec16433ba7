// The tally against the judge (the equations in floating point), and the properties it promises.
#include "signvote/tally.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <ranges>

#include "base/thread_pool.h"
#include "kernels/weight.h"
#include "signvote/error.h"
#include "tally/reference_tally.h"
#include "tally/script.h"
#include "tally/votes.h"

namespace signvote {
namespace {

using testing::all_present;
using testing::make_script;
using testing::random_signs;
using testing::Script;
using testing::through_channel;
using testing::verdicts;

void expect_same_state(const Tally& a, const Tally& b) {
  for (std::uint32_t m = 0; m < a.options().workers; ++m) {
    EXPECT_EQ(a.rounds_of(m), b.rounds_of(m));
    EXPECT_TRUE(std::ranges::equal(a.half_errors(m), b.half_errors(m)));
  }
}

/// The methods that learn, in turn.
Method learning_method(std::uint64_t seed) { return seed % 2 == 0 ? Method::shrink : Method::it; }

class Judged : public ::testing::TestWithParam<Method> {};

// Verdicts differ from the judge's only where its exact sum is smaller than M times the weight's error
// bound. Such near-ties are counted, and the judge then goes on with what the tally decided.
TEST_P(Judged, agrees_with_the_equations_except_at_near_ties) {
  std::size_t coordinates = 0;
  std::size_t near_ties = 0;
  std::size_t weighted_rounds = 0;
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    const auto workers = static_cast<std::uint32_t>(2 + 4 * (seed % 4));
    Script script = make_script(seed, 517, workers, 60, seed % 2 == 0 ? 0.15 : 0, 5);
    script.options.method = GetParam();
    script.options.prior_rounds = static_cast<std::uint32_t>(seed * seed);
    const std::uint32_t prior_rounds = GetParam() == Method::shrink ? script.options.prior_rounds : 0;
    Tally tally(script.options);
    ReferenceTally judge(script.options);
    SignVector verdict;
    SignVector exact;
    for (const auto& ballots : script.present) {
      tally.decide(ballots, verdict);
      judge.decide_as(ballots, exact, verdict);
      weighted_rounds += tally.weighted();
      for (std::size_t n = 0; n < verdict.size(); ++n) {
        ++coordinates;
        if (verdict[n] == exact[n]) continue;
        ++near_ties;
        ASSERT_LT(std::abs(judge.sums()[n]), workers * kWeightErrorNats)
            << "seed " << seed << " coordinate " << n;
      }
      for (std::uint32_t m = 0; m < workers; ++m)
        for (std::size_t n = 0; n < verdict.size(); n += 37)
          if (tally.rounds_of(m) > 0) {
            ASSERT_DOUBLE_EQ((tally.half_errors(m)[n] + static_cast<double>(tally.prior(m))) /
                                 (2.0 * (tally.rounds_of(m) + prior_rounds)),
                             judge.error_rate(m, n));
          }
    }
  }
  EXPECT_GT(weighted_rounds, 300U);
  EXPECT_LT(near_ties, coordinates / 50) << "near-ties should be rare";
  RecordProperty("coordinates", static_cast<int>(coordinates));
  RecordProperty("near_ties", static_cast<int>(near_ties));
}

INSTANTIATE_TEST_SUITE_P(Methods, Judged, ::testing::Values(Method::it, Method::shrink),
                         [](const auto& method) { return method.param == Method::it ? "it" : "shrink"; });

TEST(Tally, majority_vote_is_exactly_the_equations) {
  EXPECT_TRUE(rc::check("mv equals the judge's mv", [](std::uint64_t seed) {
    const auto n = *rc::gen::inRange<std::size_t>(0, 400);
    const auto workers = *rc::gen::inRange<std::uint32_t>(1, 40);
    Script script = make_script(seed, n, workers, 3, 0.1, 100);
    script.options.method = Method::mv;
    Tally tally(script.options);
    ReferenceTally judge(script.options);
    SignVector exact;
    SignVector verdict;
    for (const auto& ballots : script.present) {
      tally.decide(ballots, verdict);
      judge.decide(ballots, exact);
      RC_ASSERT(verdict == exact);
    }
  }));
}

TEST(Tally, fixed_weights_decide_by_their_sums) {
  EXPECT_TRUE(rc::check(
      "the verdict is the sign of the weighted sum, from the first round on", [](std::uint64_t seed) {
        const auto n = *rc::gen::inRange<std::size_t>(1, 300);
        const auto workers = *rc::gen::inRange<std::uint32_t>(1, 20);
        Script script = make_script(seed, n, workers, 3, 0.2, 100);
        std::vector<int> weights(workers);
        for (int& weight : weights) weight = *rc::gen::inRange(-3, 4);
        script.options.method = Method::fixed;
        script.options.weights.assign(weights.begin(), weights.end());
        Tally tally(script.options);
        SignVector verdict;
        for (const auto& ballots : script.present) {
          tally.decide(ballots, verdict);
          const bool silent = std::ranges::all_of(
              std::views::iota(0U, workers), [&](std::uint32_t m) { return !ballots[m] || weights[m] == 0; });
          for (std::size_t i = 0; i < n; ++i) {
            int sum = 0;
            int most = 0;
            for (std::uint32_t m = 0; m < workers; ++m)
              if (ballots[m]) {
                sum += (silent ? 1 : weights[m]) * (*ballots[m])[i];
                most += std::abs(weights[m]);
              }
            if (sum == 0 && 32000 % std::max(1, most) != 0) continue;  // a tie of weights that were rounded
            RC_ASSERT(verdict[i] == (sum > 0) - (sum < 0));
          }
        }
      }));
  for (const std::vector<double>& wrong : {std::vector<double>{1}, {1, 2, 3}, {1, std::nan("")}})
    EXPECT_THROW(Tally({Method::fixed, 2, 0, 8, 1, 10, 1, wrong}), ConfigError);
}

TEST(Tally, does_not_depend_on_the_order_of_workers) {
  EXPECT_TRUE(rc::check("permuted workers give the same verdicts", [](std::uint64_t seed) {
    const auto n = *rc::gen::inRange<std::size_t>(1, 300);
    const auto workers = *rc::gen::inRange<std::uint32_t>(1, 20);
    Script script = make_script(seed, n, workers, 12, 0.1, 3);
    script.options.method = learning_method(seed);
    std::vector<std::uint32_t> order(workers);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
    Script permuted = script;
    for (std::size_t t = 0; t < script.present.size(); ++t)
      for (std::uint32_t m = 0; m < workers; ++m) permuted.present[t][m] = script.present[t][order[m]];
    Tally a(script.options);
    Tally b(script.options);
    RC_ASSERT(verdicts(a, script) == verdicts(b, permuted));
  }));
}

TEST(Tally, does_not_depend_on_threads) {
  for (const Method method :
       {Method::shrink, Method::agree}) {  // whose weights depend on sums over all tasks
    Script script = make_script(7, 40'000, 9, 12, 0.1, 3);
    script.options.method = method;
    Tally alone(script.options);
    const auto expected = verdicts(alone, script);
    for (const std::size_t threads : {1, 2, 5}) {
      ThreadPool pool(threads);
      Tally tally(script.options, pool.parallel_for());
      EXPECT_EQ(verdicts(tally, script), expected);
      expect_same_state(tally, alone);
    }
    Tally backwards(script.options, [](std::size_t count, const auto& body) {
      while (count > 0) body(--count);
    });
    EXPECT_EQ(verdicts(backwards, script), expected);
    expect_same_state(backwards, alone);
  }
}

TEST(Tally, totals_are_the_sums_of_the_counts) {
  EXPECT_TRUE(rc::check("after every round, with threads and restored", [](std::uint64_t seed) {
    const auto n = *rc::gen::inRange<std::size_t>(0, 20'000);
    const auto workers = *rc::gen::inRange<std::uint32_t>(1, 12);
    Script script = make_script(seed, n, workers, 8, 0.2, 3);
    script.options.method = seed % 4 == 0 ? Method::mv : learning_method(seed / 4);
    ThreadPool pool(2);
    Tally tally(script.options, seed % 2 == 0 ? pool.parallel_for() : ParallelFor());
    const auto check = [&](const Tally& checked) {
      for (std::uint32_t m = 0; m < workers; ++m) {
        const auto counts = checked.half_errors(m);
        const auto sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
        RC_ASSERT(checked.total_half_errors(m) == sum);
        if (script.options.method != Method::mv) RC_ASSERT(checked.total_half_errors()[m] == sum);
      }
      RC_ASSERT(checked.total_half_errors().size() == (script.options.method == Method::mv ? 0 : workers));
    };
    SignVector verdict;
    for (const auto& ballots : script.present) {
      tally.decide(ballots, verdict);
      check(tally);
    }
    Tally restored(script.options);
    restored.restore(tally.snapshot());
    check(restored);
  }));
}

TEST(Tally, counts_half_errors_as_documented) {
  // Coordinates: 0 agreement, 1 contradiction, 2 worker 0 abstains, 3 the verdict is tied.
  Tally tally({Method::it, 3, 0, 4, 100, 10});
  std::vector<SignVector> ballots(3, SignVector(4));
  const int signs[3][4] = {{1, -1, 0, 1}, {1, 1, 1, -1}, {1, 1, 1, 0}};
  for (std::size_t m = 0; m < 3; ++m)
    for (std::size_t n = 0; n < 4; ++n) ballots[m].set(n, signs[m][n]);
  SignVector verdict;
  tally.decide(all_present(ballots), verdict);
  const int expected_verdict[4] = {1, 1, 1, 0};
  for (std::size_t n = 0; n < 4; ++n) EXPECT_EQ(verdict[n], expected_verdict[n]);
  const std::uint16_t expected[3][4] = {{0, 2, 1, 1}, {0, 0, 0, 1}, {0, 0, 0, 1}};
  for (std::uint32_t m = 0; m < 3; ++m)
    EXPECT_TRUE(std::ranges::equal(tally.half_errors(m), expected[m])) << "worker " << m;
  EXPECT_EQ(tally.total_half_errors(0), 4);
}

TEST(Tally, an_absent_worker_changes_nothing) {
  const Script script = make_script(11, 300, 4, 8, 0, 2);
  Tally with(script.options);  // worker 3 is always absent
  TallyOptions without_options = script.options;
  without_options.workers = 3;
  Tally without(without_options);
  for (const auto& ballots : script.present) {
    SignVector a;
    SignVector b;
    auto masked = ballots;
    masked[3].reset();
    with.decide(masked, a);
    without.decide(std::span(ballots).first(3), b);
    ASSERT_EQ(a, b);
  }
  EXPECT_EQ(with.rounds_of(3), 0U);
  EXPECT_EQ(with.total_half_errors(3), 0);
  const std::vector<std::byte> before = with.snapshot();
  SignVector verdict;
  with.decide(std::vector<std::optional<SignView>>(4), verdict);
  EXPECT_EQ(verdict, SignVector(300)) << "nobody present: all abstain";
  EXPECT_EQ(with.rounds(), 9U);
}

TEST(Tally, the_initial_phase_is_per_worker) {
  const std::uint32_t initial = 10;
  Tally tally({Method::it, 4, 0, 64, initial, 10});
  std::mt19937_64 random(5);
  // Worker 0 is always right, 1 and 2 guess, 3 is absent at first.
  const auto round = [&](bool late_present, const SignVector* late_ballot) {
    const SignVector truth = random_signs(64, 0, random);
    std::vector<SignVector> ballots = {truth, random_signs(64, 0, random), random_signs(64, 0, random),
                                       truth};
    auto present = all_present(ballots);
    if (!late_present)
      present[3].reset();
    else if (late_ballot != nullptr)
      present[3] = *late_ballot;
    SignVector verdict;
    const bool was_weighted = tally.weighted();
    tally.decide(present, verdict);
    if (!was_weighted && !tally.weighted()) {
      Tally majority({Method::mv, 4, 0, 64, initial, 10});
      SignVector plain;
      majority.decide(present, plain);
      EXPECT_EQ(verdict, plain) << "the initial phase is a plain majority";
    }
    return verdict;
  };
  for (std::uint32_t t = 0; t < initial; ++t) {
    EXPECT_FALSE(tally.weighted());
    round(false, nullptr);
  }
  EXPECT_FALSE(tally.weighted());
  round(false, nullptr);
  EXPECT_TRUE(tally.weighted());
  // The late worker contradicts everybody; until it has taken part in `initial` rounds it has no say.
  for (std::uint32_t t = 0; t < initial; ++t) {
    EXPECT_EQ(tally.rounds_of(3), t);
    const std::vector<std::byte> state = tally.snapshot();
    std::mt19937_64 same = random;
    const SignVector liar = random_signs(64, 0, random);
    random = same;
    const SignVector with = round(true, &liar);
    tally.restore(state);
    random = same;
    const SignVector without = round(false, nullptr);
    ASSERT_EQ(with, without) << "late worker's round " << t;
    tally.restore(state);
    random = same;
    round(true, nullptr);
  }
  EXPECT_EQ(tally.rounds_of(3), initial);
}

TEST(Tally, a_minority_of_mature_workers_does_not_rule_alone) {
  Tally tally({Method::it, 5, 0, 1, 3, 10});
  SignVector plus(1);
  plus.set(0, 1);
  SignVector minus(1);
  minus.set(0, -1);
  SignVector verdict;
  std::vector<std::optional<SignView>> only_first = {plus, {}, {}, {}, {}};
  std::vector<std::optional<SignView>> two = {plus, plus, plus, {}, {}};
  tally.decide(two, verdict);
  tally.decide(only_first, verdict);
  tally.decide(only_first, verdict);
  ASSERT_EQ(tally.rounds_of(0), 3U);
  const std::vector<std::optional<SignView>> all = {plus, minus, minus, minus, minus};
  tally.decide(all, verdict);
  EXPECT_FALSE(tally.weighted());
  EXPECT_EQ(verdict[0], -1);
}

TEST(Tally, liars_get_negative_weights) {
  std::mt19937_64 random(9);
  Tally tally({Method::it, 5, 0, 500, 20, 10});
  SignVector verdict;
  for (int t = 0; t < 60; ++t) {
    const SignVector truth = random_signs(500, 0, random);
    std::vector<SignVector> ballots;
    for (const double p : {0.1, 0.1, 0.1, 1.0, 1.0}) ballots.push_back(through_channel(truth, p, random));
    tally.decide(all_present(ballots), verdict);
    if (t < 25) continue;
    std::size_t right = 0;
    for (std::size_t n = 0; n < 500; ++n) right += verdict[n] == truth[n];
    EXPECT_GT(right, 490U) << "round " << t;
  }
  EXPECT_GT(tally.total_half_errors(3), 2 * tally.rounds_of(3) * 500 * 9 / 10);
}

// 32,767 rounds are counted exactly; then the counts are halved together with the rounds, and the
// estimates stay where they were.
TEST(Tally, halves_when_full) {
  Tally tally({Method::it, 2, 0, 3, 100, 10});
  SignVector plus(3);
  for (std::size_t i = 0; i < 3; ++i) plus.set(i, 1);
  SignVector mixed(3);  // right, wrong, abstains
  mixed.set(0, 1);
  mixed.set(1, -1);
  SignVector verdict;
  // While the vote is plain the pair ties at coordinate 1, so let worker 0 learn alone first.
  const std::vector<std::optional<SignView>> first = {plus, {}};
  for (int t = 0; t < 200; ++t) tally.decide(first, verdict);
  ASSERT_TRUE(tally.weighted());
  const std::vector<std::optional<SignView>> both = {plus, mixed};
  for (int t = 0; t < 32766; ++t) {
    tally.decide(both, verdict);
    ASSERT_EQ(verdict[1], 1);
  }
  EXPECT_EQ(tally.rounds_of(1), 32766U);
  EXPECT_EQ(tally.half_errors(1)[0], 0);
  EXPECT_EQ(tally.half_errors(1)[1], 65532);
  EXPECT_EQ(tally.half_errors(1)[2], 32766);
  tally.decide(both, verdict);
  EXPECT_EQ(tally.rounds_of(1), 16384U);
  EXPECT_EQ(tally.half_errors(1)[0], 0);
  EXPECT_EQ(tally.half_errors(1)[1], 32767);
  EXPECT_EQ(tally.half_errors(1)[2], 16383);
  EXPECT_EQ(tally.total_half_errors(1), 32767 + 16383);
  EXPECT_LT(tally.rounds_of(0), 32767U) << "worker 0 was halved on its own, 200 rounds earlier";
  for (int t = 0; t < 40'000; ++t) {
    tally.decide(both, verdict);
    for (std::size_t n = 0; n < 3; ++n) ASSERT_LE(tally.half_errors(1)[n], 2 * tally.rounds_of(1));
  }
  EXPECT_NEAR(tally.half_errors(1)[2] / (2.0 * tally.rounds_of(1)), 0.5, 1e-3);
  EXPECT_NEAR(tally.half_errors(1)[1] / (2.0 * tally.rounds_of(1)), 1.0, 1e-3);
}

// Of five workers, worker 0 is honest for 300 rounds and then a liar. Returns the rounds that it takes until
// it is known for one: its errors are more than half of what is counted.
int rounds_to_find_a_liar(Method method, std::optional<double> forget) {
  constexpr std::size_t kSize = 200;
  Tally tally({method, 5, 0, kSize, 3, 10, 30, {}, forget});
  std::mt19937_64 random(7);
  SignVector verdict;
  const auto decide = [&](double first) {
    const SignVector truth = random_signs(kSize, 0, random);
    std::vector<SignVector> ballots;
    for (std::uint32_t m = 0; m < 5; ++m)
      ballots.push_back(through_channel(truth, m == 0 ? first : 0.1, random));
    tally.decide(all_present(ballots), verdict);
  };
  for (int t = 0; t < 300; ++t) decide(0.1);
  int rounds = 0;
  const auto error_rate = [&] {
    return static_cast<double>(tally.total_half_errors(0)) / (2.0 * tally.rounds_of(0) * kSize);
  };
  for (; error_rate() < 0.5; ++rounds) decide(0.9);
  return rounds;
}

TEST(Tally, finds_a_new_liar_the_sooner_the_more_it_forgets) {
  for (const Method method : {Method::it, Method::shrink}) {
    const int never = rounds_to_find_a_liar(method, 0);
    EXPECT_EQ(rounds_to_find_a_liar(method, std::nullopt), never) << "the default";
    EXPECT_LT(rounds_to_find_a_liar(method, 0.01), never / 2);
    EXPECT_LT(rounds_to_find_a_liar(method, 0.1), rounds_to_find_a_liar(method, 0.01) / 2);
  }
}

TEST(Tally, halves_after_the_rounds_that_it_forgets_in) {
  Tally tally({Method::it, 1, 0, 3, 5, 10, 30, {}, 0.1});  // ln(2) / 0.1 is 7 rounds
  SignVector nothing(3);                                   // half an error each
  SignVector verdict;
  std::vector<std::uint32_t> rounds;
  for (int t = 0; t < 30; ++t) {
    tally.decide(std::vector<std::optional<SignView>>{nothing}, verdict);
    rounds.push_back(tally.rounds_of(0));
    ASSERT_EQ(tally.half_errors(0)[1], tally.rounds_of(0)) << "p stays 1/2";
  }
  EXPECT_EQ(rounds[12], 13U);
  EXPECT_EQ(rounds[13], 7U);
  EXPECT_EQ(rounds[19], 13U);
  EXPECT_EQ(rounds[20], 7U);
}

TEST(Tally, cannot_forget_more_than_it_needs_to_know) {
  for (const double forget : {-0.1, 1e-6, 0.6, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(Tally({Method::agree, 3, 0, 64, 5, 10, 30, {}, forget}), ConfigError) << forget;
  EXPECT_THROW(Tally({Method::it, 3, 0, 64, 100, 10, 30, {}, 0.01}), ConfigError) << "halved to 69 rounds";
  EXPECT_NO_THROW(Tally({Method::it, 3, 0, 64, 69, 10, 30, {}, 0.01}));
  EXPECT_NO_THROW(Tally({Method::agree, 3, 0, 64, 100, 10, 30, {}, 0.01}));
}

// A prior as large as it can be, on counts as large as they can be: the sums are still exact.
TEST(Tally, shrinks_until_full) {
  Tally tally({Method::shrink, 2, 0, 3, 1, 10, 16'383});
  SignVector plus(3);
  for (std::size_t i = 0; i < 3; ++i) plus.set(i, 1);
  SignVector mixed(3);  // right, wrong, abstains: p_m is 1/2
  mixed.set(0, 1);
  mixed.set(1, -1);
  SignVector verdict;
  tally.decide(std::vector<std::optional<SignView>>{plus, {}}, verdict);
  const std::vector<std::optional<SignView>> both = {plus, mixed};
  for (int t = 0; t < 40'000; ++t) {
    tally.decide(both, verdict);
    ASSERT_EQ(verdict, plus) << "round " << t;
    ASSERT_NEAR(tally.prior(1), 16'383, 2) << "round " << t;
    ASSERT_EQ(tally.prior(0), 0) << "never wrong";
  }
}

// --- Sums over all ranges -------------------------------------------------------------------------

TEST(Tally, refuses_sums_that_no_other_ranges_could_give) {
  const Script script = make_script(3, 100, 2, 5, 0, 1);
  TallyOptions options = script.options;
  options.method = Method::shrink;
  Tally tally(options);
  verdicts(tally, script);
  const std::vector<std::int64_t> own = tally.pooled();
  ASSERT_EQ(own, (std::vector<std::int64_t>{tally.total_half_errors(0), tally.total_half_errors(1), 100}));
  const float prior = tally.prior(0);
  for (const std::vector<std::int64_t>& wrong :
       std::vector<std::vector<std::int64_t>>{{},
                                              {own[0], own[1]},
                                              {own[0], own[1], 100, 0},
                                              {own[0], own[1], 99},
                                              {own[0] - 1, own[1], 200},
                                              {own[0] + 1, own[1], 100},
                                              {own[0] + 10 * 100 + 1, own[1], 200},
                                              {-1, -1, -1}})
    EXPECT_THROW(tally.set_pooled(wrong), DataError);
  EXPECT_EQ(tally.prior(0), prior);
  tally.set_pooled(own);
  EXPECT_EQ(tally.prior(0), prior);
  tally.set_pooled({own[0] + 10 * 100, own[1], 200});  // all that the others add is wrong
  EXPECT_GT(tally.prior(0), prior);
  Tally pools_nothing(script.options);
  EXPECT_TRUE(pools_nothing.pooled().empty());
  EXPECT_THROW(pools_nothing.set_pooled(own), DataError);
}

TEST(Tally, refuses_options_that_make_no_sense) {
  EXPECT_THROW(Tally({Method::it, 0, 0, 1, 100, 10}), ConfigError);
  EXPECT_THROW(Tally({Method::it, 1, 2, 1, 100, 10}), ConfigError);
  EXPECT_THROW(Tally({Method::it, 1, 0, 1, 0, 10}), ConfigError);
  EXPECT_THROW(Tally({Method::it, 1, 0, 1, 20'000, 10}), ConfigError);
  EXPECT_THROW(Tally({Method::it, 1, 0, 1, 100, 0}), ConfigError);
  EXPECT_THROW(Tally({Method::it, 1, 0, 1, 100, std::nan("")}), ConfigError);
  EXPECT_THROW(Tally({Method::it, 1, 0, 1, 100, 0.002}), ConfigError);  // less than half a unit
  EXPECT_THROW(Tally({Method::it, 1, 0, 1, 100, 11.5}), ConfigError);
  EXPECT_THROW(Tally({Method::shrink, 1, 0, 1, 100, 10, 0}), ConfigError);
  EXPECT_THROW(Tally({Method::shrink, 1, 0, 1, 100, 10, 16'384}), ConfigError);
}

// --- Forgetting a worker -------------------------------------------------------------------------

TEST(Tally, forgets_a_worker_as_if_it_had_never_voted) {
  EXPECT_TRUE(rc::check("its state is gone, the others' is not", [](std::uint64_t seed) {
    const auto n = *rc::gen::inRange<std::size_t>(1, 1200);
    const auto at = *rc::gen::inRange<std::size_t>(0, 12);
    const auto who = *rc::gen::inRange<std::uint32_t>(0, 5);
    Script script = make_script(seed, n, 5, 20, 0.2, 3);
    script.options.method = seed % 4 == 0 ? Method::mv : learning_method(seed / 4);
    Tally tally(script.options);
    SignVector verdict;
    for (std::size_t t = 0; t < at; ++t) tally.decide(script.present[t], verdict);
    Tally before(script.options);
    before.restore(tally.snapshot());

    tally.forget(who);
    const auto none = tally.half_errors(who);
    RC_ASSERT(std::ranges::count(none, 0) == static_cast<std::ptrdiff_t>(none.size()));
    RC_ASSERT(none.size() == (script.options.method == Method::mv ? 0 : n));
    RC_ASSERT(tally.rounds_of(who) == 0U);
    RC_ASSERT(tally.total_half_errors(who) == 0);
    RC_ASSERT(tally.rounds() == at);
    for (std::uint32_t m = 0; m < 5; ++m) {
      if (m == who) continue;
      RC_ASSERT(tally.rounds_of(m) == before.rounds_of(m));
      RC_ASSERT(tally.half_errors(m) == before.half_errors(m));
      RC_ASSERT(tally.total_half_errors(m) == before.total_half_errors(m));
    }

    // Saved and restored it goes on to the same bytes. To forget a second time changes nothing.
    Tally restored(script.options);
    restored.restore(tally.snapshot());
    tally.forget(who);
    RC_ASSERT(restored.snapshot() == tally.snapshot());
    const auto rest = verdicts(tally, script, at);
    RC_ASSERT(verdicts(restored, script, at) == rest);
    RC_ASSERT(restored.snapshot() == tally.snapshot());
  }));
}

TEST(Tally, decides_without_a_forgotten_worker_as_before) {
  EXPECT_TRUE(rc::check("while it stays away, nobody can tell", [](std::uint64_t seed) {
    const auto at = *rc::gen::inRange<std::size_t>(0, 12);
    const auto who = *rc::gen::inRange<std::uint32_t>(0, 5);
    Script script = make_script(seed, 300, 5, 20, 0.2, 3);
    script.options.method = learning_method(seed);
    for (std::size_t t = at; t < 20; ++t) script.present[t][who].reset();
    Tally kept(script.options);
    SignVector verdict;
    for (std::size_t t = 0; t < at; ++t) kept.decide(script.present[t], verdict);
    Tally forgetful(script.options);
    forgetful.restore(kept.snapshot());
    forgetful.forget(who);
    RC_ASSERT(verdicts(forgetful, script, at) == verdicts(kept, script, at));
    RC_ASSERT(forgetful.rounds_of(who) == 0U);
    for (std::uint32_t m = 0; m < 5; ++m)
      if (m != who) RC_ASSERT(forgetful.half_errors(m) == kept.half_errors(m));
  }));
}

TEST(Tally, workers_who_are_dropped_are_forgotten_and_new_ones_have_never_voted) {
  EXPECT_TRUE(rc::check("fewer and more workers", [](std::uint64_t seed) {
    const auto n = *rc::gen::inRange<std::size_t>(0, 1200);
    const auto at = *rc::gen::inRange<std::size_t>(0, 12);
    const auto kept = *rc::gen::inRange<std::uint32_t>(1, 6);
    Script script = make_script(seed, n, 5, 20, 0.2, 3);
    if (seed % 4 == 0) script.options.method = Method::mv;
    Tally changed(script.options);
    SignVector verdict;
    for (std::size_t t = 0; t < at; ++t) changed.decide(script.present[t], verdict);
    Tally same(script.options);
    same.restore(changed.snapshot());
    for (std::uint32_t m = kept; m < 5; ++m) same.forget(m);
    changed.set_workers(kept);
    RC_ASSERT(changed.options().workers == kept);
    changed.set_workers(7);
    changed.set_workers(5);
    RC_ASSERT(changed.snapshot() == same.snapshot());
    RC_ASSERT(changed.total_half_errors() == same.total_half_errors());
    RC_ASSERT(verdicts(changed, script, at) == verdicts(same, script, at));
  }));
  Tally tally({.workers = 1, .end = 1});
  EXPECT_THROW(tally.set_workers(0), ConfigError);
}

TEST(Tally, a_forgotten_workers_successor_starts_from_nothing) {
  // It has no say until its initial rounds are over, so the others alone decide.
  const Script script = make_script(7, 300, 5, 40, 0, 3);
  Tally tally(script.options);
  SignVector verdict, other;
  for (std::size_t t = 0; t < 20; ++t) tally.decide(script.present[t], verdict);
  tally.forget(4);
  EXPECT_EQ(tally.rounds_of(4), 0U);
  for (std::size_t t = 20; t < 22; ++t) {
    auto without = script.present[t];
    without[4].reset();
    Tally alone(script.options);
    alone.restore(tally.snapshot());
    alone.decide(without, other);
    tally.decide(script.present[t], verdict);
    EXPECT_TRUE(verdict == other) << "round " << t;
  }
  EXPECT_EQ(tally.rounds_of(4), 2U);
}

}  // namespace
}  // namespace signvote
