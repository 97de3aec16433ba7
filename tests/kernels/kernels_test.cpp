// Every kernel against a plain twin, one coordinate at a time, at sizes around words and vectors.
//
// The twins work on a vector of signs; the planes are made from it and read back. Memory is exactly as
// long as the contract says, so the address sanitizer sees a kernel that reads or writes further, and
// what lies outside a kernel's range is filled with a pattern that must survive.
#include "kernels/kernels.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/plain.h"
#include "kernels/weight.h"

namespace signvote::kernels {
namespace {

using Signs = std::vector<int>;
using Words = std::vector<std::uint64_t>;

constexpr std::uint64_t kUntouched = 0xa5c3'0ff0'5a3c'9669;
constexpr std::size_t kSizes[] = {1,   2,   3,    5,    7,    8,    15,   16,   17,   31,    32,  33,
                                  63,  64,  65,   95,   127,  128,  129,  191,  255,  256,   257, 511,
                                  512, 513, 1000, 1023, 1024, 1025, 5000, 8191, 8193, 16'500};

std::size_t word_count(std::size_t n) { return (n + 63) / 64; }

std::size_t arbitrary_size() {
  return *rc::gen::oneOf(rc::gen::elementOf(std::vector<std::size_t>(std::begin(kSizes), std::end(kSizes))),
                         rc::gen::inRange<std::size_t>(1, 700));
}

// Contents come from one seed: rapidcheck shrinks sizes and seeds, not thousands of numbers.
std::mt19937_64 arbitrary_source() { return std::mt19937_64(*rc::gen::arbitrary<std::uint32_t>()); }

int below(std::mt19937_64& source, int bound) {
  return static_cast<int>(source() % static_cast<unsigned>(bound));
}

// Of a random temper: nobody, few, many or all abstain; and so with the minus signs.
Signs random_signs(std::mt19937_64& source, std::size_t n) {
  constexpr std::array<int, 4> kPercent = {0, 10, 60, 100};
  const int present = kPercent[source() % 4];
  const int minus = kPercent[source() % 4];
  Signs signs(n);
  for (int& sign : signs) sign = below(source, 100) >= present ? 0 : below(source, 100) < minus ? -1 : 1;
  return signs;
}

struct Vote {
  Words present, negative;

  explicit Vote(std::size_t words, std::uint64_t fill = 0) : present(words, fill), negative(words, fill) {}
  explicit Vote(const Signs& signs) : Vote(word_count(signs.size())) {
    for (std::size_t i = 0; i < signs.size(); ++i) {
      if (signs[i] != 0) present[i / 64] |= std::uint64_t{1} << (i % 64);
      if (signs[i] < 0) negative[i / 64] |= std::uint64_t{1} << (i % 64);
    }
  }
  Planes planes() const { return {present.data(), negative.data()}; }
  bool operator==(const Vote&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Vote& vote) {
  for (std::size_t w = 0; w < vote.present.size(); ++w)
    out << std::hex << vote.present[w] << '/' << vote.negative[w] << ' ';
  return out;
}

struct Range {
  std::size_t first, last;
};

Range arbitrary_range(std::size_t words) {
  if (*rc::gen::arbitrary<bool>()) return {0, words};
  const auto first = *rc::gen::inRange<std::size_t>(0, words + 1);
  return {first, *rc::gen::inRange<std::size_t>(first, words + 1)};
}

// Begins where a block of counts does.
Range arbitrary_block_range(std::size_t words) {
  const Range range = arbitrary_range(words);
  return {range.first / kBlockWords * kBlockWords, range.last};
}

// The verdict a kernel should have left in words filled with kUntouched.
Vote within(const Range& range, const Signs& verdict) {
  Vote expected(word_count(verdict.size()), kUntouched);
  const Vote whole(verdict);
  for (std::size_t word = range.first; word < range.last; ++word) {
    expected.present[word] = whole.present[word];
    expected.negative[word] = whole.negative[word];
  }
  return expected;
}

int sign_of(std::int64_t sum) { return (sum > 0) - (sum < 0); }

// --- pack ---

// The three formats as bits: those of infinity, and of the smallest number that is not denormal.
template <class Number>
struct Format;
template <>
struct Format<float> {
  using Bits = std::uint32_t;
  static constexpr Bits kInfinity = 0x7f80'0000, kNormal = 0x0080'0000;
};
template <>
struct Format<double> {
  using Bits = std::uint64_t;
  static constexpr Bits kInfinity = 0x7ff0'0000'0000'0000, kNormal = 0x0010'0000'0000'0000;
};
template <>
struct Format<std::uint16_t> {  // bfloat16
  using Bits = std::uint16_t;
  static constexpr Bits kInfinity = 0x7f80, kNormal = 0x0080;
};

template <class Number>
class Pack : public testing::Test {
 public:
  using Bits = typename Format<Number>::Bits;
  static constexpr Bits kMinus = std::numeric_limits<Bits>::max() / 2 + 1;

  // Zeros, the smallest and largest of their kinds, and anything finite; of either sign.
  static Bits finite_bits(std::mt19937_64& source) {
    constexpr Bits kInfinity = Format<Number>::kInfinity;
    constexpr Bits kNormal = Format<Number>::kNormal;
    const std::array<Bits, 9> magnitudes = {0,
                                            0,
                                            0,
                                            1,
                                            kNormal - 1,
                                            kNormal,
                                            kInfinity - 1,
                                            static_cast<Bits>(source() % kNormal),
                                            static_cast<Bits>(source() % kInfinity)};
    return static_cast<Bits>(magnitudes[source() % magnitudes.size()] | (source() % 2 == 0 ? 0 : kMinus));
  }
  // An infinity, or a NaN: quiet, signalling, with any payload.
  static Bits bad_bits(std::mt19937_64& source) {
    constexpr Bits kInfinity = Format<Number>::kInfinity;
    const std::array<Bits, 4> magnitudes = {kInfinity, static_cast<Bits>(kInfinity + 1),
                                            static_cast<Bits>(kMinus - 1),
                                            static_cast<Bits>(kInfinity + source() % (kMinus - kInfinity))};
    return static_cast<Bits>(magnitudes[source() % magnitudes.size()] | (source() % 2 == 0 ? 0 : kMinus));
  }
  static std::vector<Number> finite_numbers(std::mt19937_64& source, std::size_t n) {
    std::vector<Number> values(n);
    for (Number& value : values) value = std::bit_cast<Number>(finite_bits(source));
    return values;
  }
  static Signs signs_of(const std::vector<Number>& values) {
    Signs signs;
    for (const Number value : values) {
      const Bits bits = std::bit_cast<Bits>(value);
      signs.push_back((bits & (kMinus - 1)) == 0 ? 0 : (bits & kMinus) != 0 ? -1 : 1);
    }
    return signs;
  }
};

using Numbers = testing::Types<float, double, std::uint16_t>;
TYPED_TEST_SUITE(Pack, Numbers);

TYPED_TEST(Pack, finite_numbers_give_their_signs) {
  EXPECT_TRUE(rc::check("zeros abstain, denormals do not", [] {
    const std::size_t n = arbitrary_size();
    auto source = arbitrary_source();
    const std::vector<TypeParam> values = TestFixture::finite_numbers(source, n);
    Vote packed(word_count(n), kUntouched);
    RC_ASSERT(pack(values.data(), n, packed.present.data(), packed.negative.data()) == n);
    RC_ASSERT(packed == Vote(TestFixture::signs_of(values)));
  }));
}

TYPED_TEST(Pack, the_first_bad_number_is_found) {
  EXPECT_TRUE(rc::check("wherever it is; the words before it are packed", [] {
    const std::size_t n = arbitrary_size();
    auto source = arbitrary_source();
    std::vector<TypeParam> values = TestFixture::finite_numbers(source, n);
    const Signs signs = TestFixture::signs_of(values);
    const auto first = *rc::gen::inRange<std::size_t>(0, n);
    values[first] = std::bit_cast<TypeParam>(TestFixture::bad_bits(source));
    for (auto more = *rc::gen::inRange(0, 4); more > 0; --more)
      values[first + source() % (n - first)] = std::bit_cast<TypeParam>(TestFixture::bad_bits(source));
    Vote packed(word_count(n), kUntouched);
    RC_ASSERT(pack(values.data(), n, packed.present.data(), packed.negative.data()) == first);
    packed.present.resize(first / 64);
    packed.negative.resize(first / 64);
    RC_ASSERT(packed ==
              Vote(Signs(signs.begin(), signs.begin() + static_cast<std::ptrdiff_t>(first / 64 * 64))));
  }));
}

TYPED_TEST(Pack, every_place_of_a_word) {
  std::mt19937_64 source(1);
  for (std::size_t n = 1; n <= 200; ++n) {
    const std::vector<TypeParam> good = TestFixture::finite_numbers(source, n);
    for (std::size_t bad = 0; bad < n; ++bad) {
      std::vector<TypeParam> values = good;
      values[bad] = std::bit_cast<TypeParam>(TestFixture::bad_bits(source));
      Vote packed(word_count(n));
      ASSERT_EQ(pack(values.data(), n, packed.present.data(), packed.negative.data()), bad) << "of " << n;
    }
  }
}

// All 65,536 bfloat16 numbers, against the floats they are the upper half of.
TEST(PackBFloat16, every_number_like_its_float) {
  for (std::uint32_t bits = 0; bits < 65'536; ++bits) {
    const auto number = static_cast<std::uint16_t>(bits);
    const auto value = std::bit_cast<float>(bits << 16);
    Vote packed(1);
    const std::size_t bad = pack(&number, 1, packed.present.data(), packed.negative.data());
    ASSERT_EQ(bad, std::isfinite(value) ? 1U : 0U) << std::hex << bits;
    if (bad == 1) {
      ASSERT_EQ(packed, Vote(Signs{(value > 0) - (value < 0)})) << std::hex << bits;
    }
  }
}

TEST(PackNothing, is_nothing) {
  EXPECT_EQ(pack(static_cast<const float*>(nullptr), 0, nullptr, nullptr), 0U);
  EXPECT_EQ(pack(static_cast<const double*>(nullptr), 0, nullptr, nullptr), 0U);
  EXPECT_EQ(pack(static_cast<const std::uint16_t*>(nullptr), 0, nullptr, nullptr), 0U);
}

// --- one weight for each worker ---

TEST(FixedVote, like_its_sum) {
  EXPECT_TRUE(rc::check("sign(sum of weight * sign), and nothing outside the range", [] {
    const std::size_t n = arbitrary_size();
    const auto workers = *rc::gen::inRange<std::size_t>(0, 20);
    auto source = arbitrary_source();
    const Range range = arbitrary_range(word_count(n));
    std::vector<Vote> ballots;
    std::vector<FixedVoter> voters;
    std::vector<std::int64_t> sums(n);
    ballots.reserve(workers);
    for (std::size_t m = 0; m < workers; ++m) {
      const Signs signs = random_signs(source, n);
      const auto weight = static_cast<std::int16_t>(below(source, 3277) - 1638);  // 20 of them just fit
      for (std::size_t i = 0; i < n; ++i) sums[i] += weight * signs[i];
      ballots.emplace_back(signs);
      voters.push_back({ballots.back().planes(), weight});
    }
    Signs expected(n);
    std::ranges::transform(sums, expected.begin(), sign_of);
    Vote verdict(word_count(n), kUntouched);
    fixed_vote(voters, range.first, range.last, verdict.present.data(), verdict.negative.data());
    RC_ASSERT(verdict == within(range, expected));
  }));
}

TEST(Agreement, like_its_sum) {
  EXPECT_TRUE(rc::check("of every pair, on the words of the range", [] {
    const std::size_t n = arbitrary_size();
    const auto workers = *rc::gen::inRange<std::size_t>(0, 7);
    auto source = arbitrary_source();
    const Range range = arbitrary_range(word_count(n));
    std::vector<Signs> signs;
    std::vector<Vote> ballots;
    std::vector<Planes> planes;
    for (std::size_t m = 0; m < workers; ++m) signs.push_back(random_signs(source, n));
    for (const Signs& of_worker : signs) ballots.emplace_back(of_worker);
    for (const Vote& ballot : ballots) planes.push_back(ballot.planes());
    std::vector<PairCount> expected;
    for (std::size_t i = 1; i < workers; ++i)
      for (std::size_t j = 0; j < i; ++j) {
        expected.push_back({7, -7});  // it adds
        for (std::size_t k = 64 * range.first; k < std::min(n, 64 * range.last); ++k) {
          expected.back().both += signs[i][k] * signs[j][k] != 0 ? 1 : 0;
          expected.back().agreement += signs[i][k] * signs[j][k];
        }
      }
    std::vector<PairCount> counts(expected.size(), PairCount{7, -7});
    count_agreement(planes, range.first, range.last, counts.data());
    RC_ASSERT(counts == expected);
  }));
}

// --- mix ---

TEST(Mix, like_lion) {
  EXPECT_TRUE(rc::check("products and sums are rounded one by one; no momentum is denormal", [] {
    const std::size_t n = arbitrary_size();
    auto source = arbitrary_source();
    const auto vote_beta = *rc::gen::element(0.0F, 0.5F, 0.9F, 0.95F, 0.9999F);
    const auto momentum_beta = *rc::gen::element(0.0F, 0.5F, 0.9F, 0.99F, 0.9999F);
    const auto arbitrary = [&source](float& x) {  // finite, of any size, or zero
      const std::uint32_t bits = static_cast<std::uint32_t>(source());
      x = below(source, 8) == 0 ? 0.0F : std::bit_cast<float>(bits);
      if (!std::isfinite(x)) x = 1.0F;
    };
    std::vector<float> gradient(n);
    std::vector<float> before(n);
    std::ranges::for_each(gradient, arbitrary);
    std::ranges::for_each(before, arbitrary);
    std::vector<float> after = before;
    std::vector<float> mixed(n + 1, -7.0F);
    mix(gradient.data(), after.data(), n, vote_beta, momentum_beta, mixed.data());
    const auto same = [](float a, float b) {
      return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    };
    for (std::size_t i = 0; i < n; ++i) {
      const auto mean = [&](float beta) {  // each product is stored, so that no compiler can fuse it
        const volatile float old = beta * before[i];
        const volatile float fresh = (1.0F - beta) * gradient[i];
        return old + fresh;
      };
      RC_ASSERT(same(mixed[i], mean(vote_beta)));
      const float momentum = mean(momentum_beta);
      RC_ASSERT(same(after[i], std::fpclassify(momentum) == FP_NORMAL ? momentum : 0.0F));
    }
    RC_ASSERT(mixed[n] == -7.0F);
  }));
}

// --- step ---

TEST(Step, like_equation_5) {
  EXPECT_TRUE(rc::check("x - decay * x - delta * u, bit for bit; the plain twin as well", [] {
    const std::size_t n = arbitrary_size();
    auto source = arbitrary_source();
    const Signs signs = random_signs(source, n);
    const Vote verdict(signs);
    const auto delta = *rc::gen::element(1e-3F, 1e-4F, 0.1F, 1.0F, 1e30F, 1e-42F, -1e-3F, 0.0F);
    const auto decay = *rc::gen::element(0.0F, 1e-4F, 1e-8F, 0.1F, 1.0F, 1e-42F);
    std::vector<float> before(n);
    for (float& x : before)  // any bits at all, but mostly of the size of parameters
      x = below(source, 4) == 0 ? std::bit_cast<float>(static_cast<std::uint32_t>(source()))
                                : static_cast<float>(below(source, 2'000'001) - 1'000'000) * 1e-6F;
    const std::array<std::uint32_t, 8> special = {0,           0x8000'0000, 0x7fc0'1234, 0xff80'0001,
                                                  0x7f80'0000, 1,           0x8000'0001, 0x007f'ffff};
    for (int i = 0; i < 5; ++i) before[source() % n] = std::bit_cast<float>(special[source() % 8]);
    std::vector<float> after = before;
    step(after.data(), n, verdict.present.data(), verdict.negative.data(), delta, decay);
    std::vector<float> twin = before;
    plain::step_all(twin.data(), n, verdict.present.data(), verdict.negative.data(), delta, decay);
    for (std::size_t i = 0; i < n; ++i) {
      const float decayed = decay == 0 ? before[i] : before[i] - decay * before[i];
      const float expected = signs[i] == 0 ? decayed : decayed - delta * static_cast<float>(signs[i]);
      // Which NaN comes of a NaN is the processor's choice. Where nothing is computed, every bit stays.
      if ((signs[i] != 0 || decay != 0) && std::isnan(expected)) {
        RC_ASSERT(std::isnan(after[i]) && std::isnan(twin[i]));
      } else {
        RC_ASSERT(std::bit_cast<std::uint32_t>(after[i]) == std::bit_cast<std::uint32_t>(expected));
        RC_ASSERT(std::bit_cast<std::uint32_t>(twin[i]) == std::bit_cast<std::uint32_t>(expected));
      }
    }
  }));
}

TEST(Step, touches_nothing_past_n) {
  for (const std::size_t n : kSizes) {
    std::vector<float> x(n + 64, 1.0F);
    const Vote verdict(Signs(n, 1));
    for (const float decay : {0.0F, 0.25F}) {
      std::ranges::fill(x, 1.0F);
      step(x.data(), n, verdict.present.data(), verdict.negative.data(), 0.5F, decay);
      EXPECT_EQ(std::count(x.begin(), x.end(), 0.5F - decay), static_cast<std::ptrdiff_t>(n));
      EXPECT_EQ(std::count(x.begin() + static_cast<std::ptrdiff_t>(n), x.end(), 1.0F), 64);
    }
  }
}

// --- majority ---

// The verdict on random ballots, and what it should be.
std::pair<Vote, Vote> random_majority(std::size_t voters, std::size_t n, std::mt19937_64 source,
                                      const Range& range) {
  std::vector<Vote> ballots;
  std::vector<Planes> planes;
  std::vector<int> sums(n);
  ballots.reserve(voters);
  for (std::size_t m = 0; m < voters; ++m) {
    const Signs signs = random_signs(source, n);
    for (std::size_t i = 0; i < n; ++i) sums[i] += signs[i];
    ballots.emplace_back(signs);
    planes.push_back(ballots.back().planes());
  }
  Signs expected;
  for (const int sum : sums) expected.push_back(sign_of(sum));
  Vote verdict(word_count(n), kUntouched);
  majority(planes, range.first, range.last, verdict.present.data(), verdict.negative.data());
  return {verdict, within(range, expected)};
}

TEST(Majority, like_a_sum_of_signs) {
  EXPECT_TRUE(rc::check("any number of ballots, any range", [] {
    const auto voters = *rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 131),
                                        rc::gen::element<std::size_t>(255, 256, 300, 511, 512, 513));
    const std::size_t n = arbitrary_size();
    const auto source = arbitrary_source();
    const auto [verdict, expected] = random_majority(voters, n, source, arbitrary_range(word_count(n)));
    RC_ASSERT(verdict == expected);
  }));
}

// In words that do not begin a vector.
TEST(Majority, every_number_of_ballots) {
  for (std::size_t voters = 0; voters <= 130; ++voters) {
    const auto [verdict, expected] =
        random_majority(voters, 1'000, std::mt19937_64(voters), {voters % 3, 16 - voters % 5});
    ASSERT_EQ(verdict, expected) << voters << " ballots";
  }
}

// More than a tile of the kernel's, from every word of a cache line to every other.
TEST(Majority, every_range) {
  for (const std::size_t voters : {1U, 4U, 15U})
    for (std::size_t first = 0; first <= 8; ++first)
      for (std::size_t last = 130; last <= 138; ++last) {
        const auto [verdict, expected] =
            random_majority(voters, 64 * 138 - 5, std::mt19937_64(first * last), {first, last});
        ASSERT_EQ(verdict, expected) << voters << " ballots, words " << first << " to " << last;
      }
}

// Every possible outcome of M ballots: p say plus, q minus, the others abstain.
TEST(Majority, every_outcome) {
  for (const std::size_t voters :
       {1U, 2U, 3U, 4U, 7U, 8U, 15U, 16U, 31U, 32U, 63U, 64U, 70U, 127U, 128U, 130U}) {
    Signs expected;
    std::vector<Signs> ballots(voters);
    for (std::size_t plus = 0; plus <= voters; ++plus)
      for (std::size_t minus = 0; plus + minus <= voters; ++minus) {
        expected.push_back(sign_of(static_cast<std::int64_t>(plus) - static_cast<std::int64_t>(minus)));
        for (std::size_t m = 0; m < voters; ++m)
          ballots[m].push_back(m < plus ? 1 : m < plus + minus ? -1 : 0);
      }
    const std::vector<Vote> votes(ballots.begin(), ballots.end());
    std::vector<Planes> planes;
    for (const Vote& vote : votes) planes.push_back(vote.planes());
    Vote verdict(word_count(expected.size()), kUntouched);
    majority(planes, 0, verdict.present.size(), verdict.present.data(), verdict.negative.data());
    EXPECT_EQ(verdict, Vote(expected)) << voters << " ballots";
  }
}

// --- weighted_vote ---

// Counts for whole blocks, as the kernels take them: here each worker's blocks follow each other, with a
// gap between them that must survive.
constexpr std::size_t kGap = 64;

class CountList {
 public:
  explicit CountList(std::size_t n, std::uint16_t value = 0)
      : list_((n + kBlockCounts - 1) / kBlockCounts * (kBlockCounts + kGap), value) {}
  std::uint16_t& operator[](std::size_t i) { return list_[place(i)]; }
  std::uint16_t operator[](std::size_t i) const { return list_[place(i)]; }
  Counts counts() { return {list_.data(), kBlockCounts + kGap}; }
  bool operator==(const CountList&) const = default;

 private:
  static std::size_t place(std::size_t i) {
    return i / kBlockCounts * (kBlockCounts + kGap) + i % kBlockCounts;
  }
  std::vector<std::uint16_t> list_;
};

struct Worker {
  Signs signs;
  Vote ballot;
  CountList half_errors;
  float twice_rounds;
  float prior = 0;
};

Worker random_worker(std::mt19937_64& source, std::size_t n) {
  constexpr std::array<int, 7> kRounds = {1, 2, 100, 127, 128, 20'000, 32'766};
  const int rounds = below(source, 2) == 0 ? kRounds[source() % 7] : 1 + below(source, 32'766);
  const int temper = below(source, 4);  // always right, at chance, always wrong, or anything
  CountList half_errors(n);
  for (std::size_t i = 0; i < n; ++i)
    half_errors[i] =
        static_cast<std::uint16_t>(temper == 3 ? below(source, 2 * rounds + 1) : temper * rounds);
  const Signs signs = random_signs(source, n);
  // Half of them have a prior, of any size that fits.
  constexpr std::array<int, 4> kPriorRounds = {1, 30, 1'000, 16'383};
  const int prior_rounds = below(source, 2) == 0 ? 0 : kPriorRounds[source() % 4];
  const auto prior = static_cast<float>(below(source, 2 * prior_rounds * int{kPriorUnits} + 1)) / kPriorUnits;
  return {signs, Vote(signs), half_errors, static_cast<float>(2 * (rounds + prior_rounds)), prior};
}

std::vector<Voter> voters_of(std::vector<Worker>& workers) {
  std::vector<Voter> voters;
  for (Worker& worker : workers)
    voters.push_back(
        {worker.ballot.planes(), worker.half_errors.counts(), worker.twice_rounds, worker.prior});
  return voters;
}

// The sum of 1 - Y * U over the range, in which coordinates past the last count 1 each.
std::int64_t sum_of_new(const Signs& y, const Signs& u, const Range& range) {
  std::int64_t sum = 0;
  for (std::size_t i = 64 * range.first; i < 64 * range.last; ++i)
    sum += 1 - (i < y.size() ? y[i] * u[i] : 0);
  return sum;
}

TEST(WeightedVote, like_equations_3_and_4) {
  EXPECT_TRUE(rc::check("the sign of the sum of weights, then the count, in any range", [] {
    const std::size_t n = arbitrary_size();
    const auto count = *rc::gen::inRange<std::size_t>(0, 131);
    const std::int16_t clip =
        clip_units(*rc::gen::element(0.01, 1.0, 10.0, kMaxClip));  // the least ties most
    auto source = arbitrary_source();
    std::vector<Worker> workers;
    for (std::size_t m = 0; m < count; ++m) workers.push_back(random_worker(source, n));
    Signs expected(n);
    for (std::size_t i = 0; i < n; ++i) {
      std::int64_t sum = 0;
      for (const Worker& worker : workers)
        sum += worker.signs[i] * weight(worker.half_errors[i], worker.prior, worker.twice_rounds, clip);
      expected[i] = sign_of(sum);
    }
    const std::vector<Worker> before = workers;
    const Range range = arbitrary_block_range(word_count(n));
    Vote verdict(word_count(n), kUntouched);
    std::vector<std::int64_t> new_half_errors(count, 5);
    weighted_vote(voters_of(workers), clip, range.first, range.last, verdict.present.data(),
                  verdict.negative.data(), new_half_errors.data());
    RC_ASSERT(verdict == within(range, expected));
    for (std::size_t m = 0; m < count; ++m) {
      RC_ASSERT(new_half_errors[m] == 5 + sum_of_new(workers[m].signs, expected, range));
      for (std::size_t i = 0; i < n; ++i) {
        const bool inside = i / 64 >= range.first && i / 64 < range.last;
        const int more = inside ? 1 - workers[m].signs[i] * expected[i] : 0;
        RC_ASSERT(workers[m].half_errors[i] == before[m].half_errors[i] + more);
      }
    }
  }));
}

// Every count of every number of rounds up to 300, and of some larger ones: a vote of one worker
// against another whose weight is known gives away each weight to the unit.
TEST(WeightedVote, every_weight) {
  const std::int16_t clip = clip_units(10);
  std::vector<std::uint32_t> all_rounds = {511, 512, 1'000, 4'095, 9'999, 16'384, 32'766};
  for (std::uint32_t rounds = 1; rounds <= 300; ++rounds) all_rounds.push_back(rounds);
  for (const std::uint32_t rounds : all_rounds) {
    const std::size_t n = 2 * rounds + 1;
    CountList counts(n);
    for (std::size_t i = 0; i < n; ++i) counts[i] = static_cast<std::uint16_t>(i);
    const Vote plus(Signs(n, 1));
    const float prior = rounds % 2 == 0 ? 0 : static_cast<float>(rounds * 37 % 7681) / kPriorUnits;
    const float twice_rounds = 2.0F * static_cast<float>(rounds) + (prior == 0 ? 0 : 60);
    const auto weight_of_count = [&](std::uint16_t count) {
      return weight(count, prior, twice_rounds, clip);
    };
    Vote verdict(word_count(n));
    CountList own = counts;
    const std::vector<Voter> alone = {{plus.planes(), own.counts(), twice_rounds, prior}};
    std::int64_t new_half_errors[2] = {};
    weighted_vote(alone, clip, 0, word_count(n), verdict.present.data(), verdict.negative.data(),
                  new_half_errors);
    Signs expected(n);
    for (std::size_t i = 0; i < n; ++i) expected[i] = sign_of(weight_of_count(counts[i]));
    ASSERT_EQ(verdict, Vote(expected)) << rounds << " rounds";

    // The other: counts whose weights climb with i as well, one step off, so that most sums are small.
    CountList first = counts;
    CountList second = counts;
    for (std::size_t i = 0; i < n; ++i)
      second[i] = static_cast<std::uint16_t>(i == 0 ? 1 : i - (i % 3 == 0 ? 1 : 0));
    const CountList other = second;
    const Vote minus(Signs(n, -1));
    const std::vector<Voter> two = {{plus.planes(), first.counts(), twice_rounds, prior},
                                    {minus.planes(), second.counts(), twice_rounds, prior}};
    weighted_vote(two, clip, 0, word_count(n), verdict.present.data(), verdict.negative.data(),
                  new_half_errors);
    for (std::size_t i = 0; i < n; ++i)
      expected[i] = sign_of(weight_of_count(counts[i]) - weight_of_count(other[i]));
    ASSERT_EQ(verdict, Vote(expected)) << rounds << " rounds";
  }
}

// 300 workers at the largest clip sum to 609,300; one more that contradicts them all changes nothing.
TEST(WeightedVote, unanimous_sums_do_not_overflow) {
  constexpr std::size_t kN = 129;
  for (const std::size_t voters : {15U, 16U, 17U, 18U, 33U, 64U, 65U, 70U, 300U})
    for (const std::uint16_t half_errors : {0, 65'532})
      for (const int sign : {-1, 1}) {
        const Worker worker{Signs(kN, sign), Vote(Signs(kN, sign)), CountList(kN, half_errors), 65'532};
        std::vector<Worker> workers(voters, worker);
        workers.push_back(worker);
        workers.back().ballot = Vote(Signs(kN, -sign));
        Vote verdict(word_count(kN), kUntouched);
        std::vector<std::int64_t> new_half_errors(workers.size());
        weighted_vote(voters_of(workers), clip_units(kMaxClip), 0, word_count(kN), verdict.present.data(),
                      verdict.negative.data(), new_half_errors.data());
        EXPECT_EQ(verdict, Vote(Signs(kN, half_errors == 0 ? sign : -sign))) << voters << " workers";
      }
}

// --- count_half_errors ---

TEST(CountHalfErrors, like_equation_4) {
  EXPECT_TRUE(rc::check("1 - Y * U more, inside the range alone, and their sums", [] {
    const std::size_t n = arbitrary_size();
    const auto count = *rc::gen::inRange<std::size_t>(0, 20);
    auto source = arbitrary_source();
    std::vector<Worker> workers;
    for (std::size_t m = 0; m < count; ++m) workers.push_back(random_worker(source, n));
    const Signs u = random_signs(source, n);
    const Range range = arbitrary_block_range(word_count(n));
    std::vector<CountList> expected;
    for (Worker& worker : workers) {
      for (std::size_t i = 0; i < n; ++i)
        worker.half_errors[i] = static_cast<std::uint16_t>(below(source, 65'534));  // 65,535 at most, then
      expected.push_back(worker.half_errors);
      for (std::size_t i = 64 * range.first; i < 64 * range.last; ++i)
        expected.back()[i] =
            static_cast<std::uint16_t>(expected.back()[i] + 1 - (i < n ? worker.signs[i] * u[i] : 0));
    }
    std::vector<std::int64_t> new_half_errors(count, 5);
    count_half_errors(voters_of(workers), Vote(u).planes(), range.first, range.last, new_half_errors.data());
    for (std::size_t m = 0; m < count; ++m) {
      RC_ASSERT(workers[m].half_errors == expected[m]);
      RC_ASSERT(new_half_errors[m] == 5 + sum_of_new(workers[m].signs, u, range));
    }
  }));
}

TEST(CountHalfErrors, every_pair) {
  for (const int y : {-1, 0, 1})
    for (const int u : {-1, 0, 1}) {
      std::vector<Worker> workers = {{Signs(64, y), Vote(Signs(64, y)), CountList(64, 10), 200}};
      std::int64_t new_half_errors = 0;
      count_half_errors(voters_of(workers), Vote(Signs(64, u)).planes(), 0, 1, &new_half_errors);
      const int more = y == 0 || u == 0 ? 1 : y == u ? 0 : 2;
      for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(workers[0].half_errors[i], 10 + more) << y << ' ' << u;
      EXPECT_EQ(new_half_errors, 64 * more) << y << ' ' << u;
    }
}

}  // namespace
}  // namespace signvote::kernels

// All tests again for each instruction set of this machine, each in a process of its own.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bool failed = false;
  const std::vector<std::string> targets = signvote::kernels::targets();
  for (const std::string& target : targets) {
    std::cout << "=== " << target << " ===" << std::endl;
    const pid_t child = fork();
    if (child == 0) {
      signvote::kernels::use_target(target);
      const int result = RUN_ALL_TESTS();
      std::cout << std::flush;
      _exit(result);
    }
    int status = 1;
    waitpid(child, &status, 0);
    failed = failed || status != 0;
  }
  return failed || targets.empty() ? 1 : 0;
}
