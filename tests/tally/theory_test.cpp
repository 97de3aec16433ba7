// The vote against the theory of decoding. On binary symmetric channels with known crossover
// probabilities, the measured error of each vote must agree with the exact error probability of the
// weights it used, computed by enumerating all 2^15 patterns of who is wrong. docs/theory.md says what it
// shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/weight.h"
#include "signvote/tally.h"
#include "tally/votes.h"

namespace signvote {
namespace {

constexpr std::size_t kWorkers = 15;
constexpr std::size_t kCoordinates = 2000;
using Rates = std::array<double, kWorkers>;
using Weights = std::array<int, kWorkers>;

struct Channels {
  const char* name;
  Rates p;
};

std::vector<Channels> channels() {
  Channels one_strong{"14 at 0.40, one at 0.05", {}};
  Channels one_good{"14 at 0.40, one at 0.20", {}};
  Channels all_different{"0.06 to 0.48", {}};
  one_strong.p.fill(0.40);
  one_good.p.fill(0.40);
  one_strong.p[14] = 0.05;
  one_good.p[14] = 0.20;
  for (std::size_t m = 0; m < kWorkers; ++m) all_different.p[m] = 0.06 + 0.03 * static_cast<double>(m);
  return {one_strong, one_good, all_different};
}

/// The probability of every pattern of wrong workers, in the order of the Gray code.
std::vector<double> pattern_probabilities(const Rates& p) {
  std::vector<double> result(std::size_t{1} << kWorkers);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t pattern = i ^ (i >> 1);
    double probability = 1;
    for (std::size_t m = 0; m < kWorkers; ++m) probability *= (pattern >> m & 1) != 0 ? p[m] : 1 - p[m];
    result[i] = probability;
  }
  return result;
}

/// The probability that the weighted vote is wrong, where a tie is half an error. Goes through all 2^15
/// patterns, one flip at a time.
double exact_error(const Weights& weights, const std::vector<double>& probabilities) {
  int sum = 0;
  for (const int weight : weights) sum += weight;
  std::array<bool, kWorkers> wrong{};
  double error = 0;
  for (std::size_t i = 0;; ++i) {
    error += sum < 0 ? probabilities[i] : sum == 0 ? probabilities[i] / 2 : 0;
    if (i + 1 == probabilities.size()) return error;
    const auto m = static_cast<std::size_t>(__builtin_ctzll(i + 1));
    sum += wrong[m] ? 2 * weights[m] : -2 * weights[m];
    wrong[m] = !wrong[m];
  }
}

/// The mean exact error over the coordinates, each with the weights that the tally uses there.
double exact_error(const Tally& tally, const std::vector<double>& probabilities) {
  const TallyOptions& options = tally.options();
  const std::uint32_t prior_rounds = options.method == Method::shrink ? options.prior_rounds : 0;
  double sum = 0;
  std::vector<std::vector<std::uint16_t>> half_errors;
  for (std::uint32_t m = 0; m < kWorkers; ++m) half_errors.push_back(tally.half_errors(m));
  for (std::size_t n = 0; n < tally.size(); ++n) {
    Weights weights{};
    for (std::uint32_t m = 0; m < kWorkers; ++m)
      weights[m] = weight(half_errors[m][n], tally.prior(m),
                          static_cast<float>(2 * (tally.rounds_of(m) + prior_rounds)), clip_units(10));
    sum += exact_error(weights, probabilities);
  }
  return sum / static_cast<double>(tally.size());
}

SignVector cast_round(Tally& tally, const Rates& p, std::mt19937_64& random, SignVector& verdict) {
  const SignVector truth = testing::random_signs(tally.size(), 0, random);
  std::vector<SignVector> ballots;
  for (const double rate : p) ballots.push_back(testing::through_channel(truth, rate, random));
  tally.decide(testing::all_present(ballots), verdict);
  return truth;
}

/// The share of wrong coordinates (a tie is half of one) over `rounds` rounds that all start from the
/// tally's present state.
double measured_error(Tally& tally, const Rates& p, std::size_t rounds, std::mt19937_64& random) {
  const std::vector<std::byte> state = tally.snapshot();
  double wrong = 0;
  SignVector verdict;
  for (std::size_t t = 0; t < rounds; ++t) {
    const SignVector truth = cast_round(tally, p, random, verdict);
    for (std::size_t n = 0; n < truth.size(); ++n) wrong += (1 - truth[n] * verdict[n]) / 2.0;
    tally.restore(state);
  }
  return wrong / static_cast<double>(rounds * tally.size());
}

constexpr std::size_t kMeasured = 40;  // rounds of kCoordinates each: 80,000 decisions a figure

/// Four standard deviations of a share of 80,000 decisions: a right program fails once in 16,000.
double confidence(double error) { return 4 * std::sqrt(error * (1 - error) / (kMeasured * kCoordinates)); }

class Theory : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Theory, measured_errors_are_the_exact_ones) {
  const Channels channel = channels()[GetParam()];
  const std::vector<double> probabilities = pattern_probabilities(channel.p);
  std::mt19937_64 random(2024);
  TallyOptions options{Method::mv, kWorkers, 0, kCoordinates, 100, 10};

  const auto check = [&](const char* vote, Tally& tally, double exact) {
    const double measured = measured_error(tally, channel.p, kMeasured, random);
    std::printf("%-24s %-22s exact %.5f  measured %.5f  +- %.5f\n", channel.name, vote, exact, measured,
                confidence(exact));
    EXPECT_NEAR(measured, exact, confidence(exact)) << channel.name << ", " << vote;
    return exact;
  };

  Tally majority(options);
  Weights equal{};
  equal.fill(1);
  const double mv = check("majority", majority, exact_error(equal, probabilities));

  // The tally learns the true rates exactly, from rounds that are made for it: p = c / 200.
  options.method = Method::it;
  Tally oracle(options);
  {
    std::vector<SignVector> ballots(kWorkers, SignVector(kCoordinates));
    SignVector verdict;
    SignVector truth(kCoordinates);
    for (std::size_t n = 0; n < kCoordinates; ++n) truth.set(n, 1);
    // In 100 rounds worker m is wrong in exactly 100 * p_m of them (all rates are whole hundredths), one
    // worker's after the other's, so that no round has more than 6 wrong and the majority is right.
    for (int t = 0; t < 100; ++t) {
      int before = 0;
      for (std::size_t m = 0; m < kWorkers; ++m) {
        const int wrong = static_cast<int>(std::lround(100 * channel.p[m]));
        const bool errs = (t - before % 100 + 100) % 100 < wrong;
        before += wrong;
        for (std::size_t n = 0; n < kCoordinates; ++n) ballots[m].set(n, errs ? -1 : 1);
      }
      oracle.decide(testing::all_present(ballots), verdict);
      ASSERT_EQ(verdict, truth) << "the script must keep the majority right, round " << t;
    }
    for (std::uint32_t m = 0; m < kWorkers; ++m)
      ASSERT_EQ(oracle.half_errors(m)[0], 2 * std::lround(100 * channel.p[m])) << "worker " << m;
  }
  const double best = check("true LLRs", oracle, exact_error(oracle, probabilities));

  // The LLR vote is the optimum: no other weights do better.
  EXPECT_LT(best, mv);
  SignVector verdict;
  std::array<std::array<double, 2>, 2> learnt_error{};  // of it and of shrink, in round 150 and in round 1000
  for (const std::size_t shrinks : {0, 1}) {
    options.method = shrinks != 0 ? Method::shrink : Method::it;
    options.initial_rounds = default_initial_rounds(options.method);
    Tally learnt(options);
    for (const std::size_t late : {0, 1}) {
      while (learnt.rounds() < (late != 0 ? 1000 : 150)) cast_round(learnt, channel.p, random, verdict);
      ASSERT_TRUE(learnt.weighted());
      const std::string vote =
          std::string(shrinks != 0 ? "shrink" : "it") + ", round " + std::to_string(learnt.rounds());
      learnt_error[shrinks][late] = check(vote.c_str(), learnt, exact_error(learnt, probabilities));
      EXPECT_LE(best, learnt_error[shrinks][late] + 1e-12) << vote;
      EXPECT_LT(learnt_error[shrinks][late], mv) << vote;
    }
  }
  // The paper's rule approaches it with time. Shrinkage is ahead early, but need not come closer later.
  EXPECT_LT(learnt_error[0][1], learnt_error[0][0]);
  EXPECT_LT(learnt_error[1][0], learnt_error[0][0]);
  std::uniform_int_distribution<int> any(-100, 1000);
  for (int i = 0; i < 200; ++i) {
    Weights weights{};
    for (int& weight : weights) weight = any(random);
    EXPECT_GE(exact_error(weights, probabilities), best - 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Channels, Theory, ::testing::Values(0, 1, 2));

/// The weights that nobody could better, from the true rates.
Weights true_weights(const Rates& p) {
  Weights weights{};
  for (std::size_t m = 0; m < kWorkers; ++m)
    weights[m] = static_cast<int>(std::lround(std::log((1 - p[m]) / p[m]) / kNatsPerUnit));
  return weights;
}

std::vector<Channels> unequal_channels() {
  std::vector<Channels> all;
  for (const auto& [name, p] : {std::pair("14 at 0.40, one at 0.05", 0.05),
                                {"14 at 0.40, one at 0.10", 0.10},
                                {"14 at 0.40, one at 0.20", 0.20},
                                {"15 at 0.40", 0.40}}) {
    all.push_back({name, {}});
    all.back().p.fill(0.40);
    all.back().p[14] = p;
  }
  all.push_back(channels()[2]);
  all.push_back({"12 at 0.40, 3 at 0.80", {}});
  all.back().p.fill(0.40);
  std::fill_n(all.back().p.begin(), 3, 0.80);
  return all;
}

// Nobody is judged by a verdict, so nobody drifts: the weights only get better.
TEST(Agree, is_near_the_optimum_and_stays_there) {
  for (const Channels& channel : unequal_channels()) {
    const std::vector<double> probabilities = pattern_probabilities(channel.p);
    const double best = exact_error(true_weights(channel.p), probabilities);
    std::mt19937_64 random(50);
    Tally tally({Method::agree, kWorkers, 0, kCoordinates, 5, 10, default_prior_rounds(Method::agree)});
    SignVector verdict;
    std::printf("%-24s optimum %.5f  over it: agree", channel.name, best);
    for (const std::uint64_t rounds : {50, 1000}) {
      while (tally.rounds() < rounds) cast_round(tally, channel.p, random, verdict);
      const std::vector<double> learnt = tally.worker_weights();
      Weights weights{};
      for (std::size_t m = 0; m < kWorkers; ++m)
        weights[m] = static_cast<int>(std::lround(learnt[m] / kNatsPerUnit));
      const double over_best = exact_error(weights, probabilities) / best;
      std::printf("  %.3f", over_best);
      EXPECT_LE(over_best, rounds == 50 ? 1.05 : 1.01) << channel.name << ", round " << rounds;
    }
    std::printf("\n");
  }
}

// After 50 rounds, all with weights from round 4 on. (By default the paper's rule is the majority until round
// 100.) A worker's rate is the same at all coordinates here, which favours many prior rounds.
TEST(Shrink, is_near_the_optimum_after_50_rounds) {
  for (const Channels& channel : unequal_channels()) {
    const std::vector<double> probabilities = pattern_probabilities(channel.p);
    const double best = exact_error(true_weights(channel.p), probabilities);
    Weights equal{};
    equal.fill(1);
    std::printf("%-24s optimum %.5f  over it: majority %.3f", channel.name, best,
                exact_error(equal, probabilities) / best);
    const auto over_best = [&](Method method, std::uint32_t prior_rounds) {
      std::mt19937_64 random(50);
      Tally tally({method, kWorkers, 0, kCoordinates, 3, 10, prior_rounds});
      SignVector verdict;
      while (tally.rounds() < 50) cast_round(tally, channel.p, random, verdict);
      return exact_error(tally, probabilities) / best;
    };
    const double it = over_best(Method::it, 30);
    const double by_30 = over_best(Method::shrink, 30);
    const double by_100 = over_best(Method::shrink, 100);
    std::printf("  it %.3f  shrink %.3f  with 100 prior rounds %.3f\n", it, by_30, by_100);
    EXPECT_LT(by_30, it) << channel.name;
    EXPECT_LE(by_30, 1.20) << channel.name;
    EXPECT_LE(by_100, 1.10) << channel.name;
  }
}

}  // namespace
}  // namespace signvote
