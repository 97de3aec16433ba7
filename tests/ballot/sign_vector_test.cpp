// SignVector and SignView against a plain vector of -1, 0 and +1; the public pack and step on top of them.
#include "signvote/sign_vector.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace signvote {
namespace {

using Signs = std::vector<int>;

Signs arbitrary_signs() {
  const auto n = *rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 300),
                                 rc::gen::element<std::size_t>(0, 1, 63, 64, 65, 127, 128, 129));
  return *rc::gen::container<Signs>(n, rc::gen::inRange(-1, 2));
}

SignVector from(const Signs& signs) {
  SignVector vector(signs.size());
  for (std::size_t i = 0; i < signs.size(); ++i) vector.set(i, signs[i]);
  return vector;
}

Signs to_signs(SignView view) {
  Signs signs;
  for (std::size_t i = 0; i < view.size(); ++i) signs.push_back(view[i]);
  return signs;
}

// The form that sign_vector.h promises.
bool canonical(SignView vector) {
  const std::size_t words = SignVector::words(vector.size());
  if (vector.present().size() != words || vector.negative().size() != words) return false;
  for (std::size_t w = 0; w < words; ++w)
    if ((vector.negative()[w] & ~vector.present()[w]) != 0) return false;
  return vector.size() % 64 == 0 || vector.present().back() >> (vector.size() % 64) == 0;
}

TEST(SignVector, what_is_set_is_there) {
  EXPECT_TRUE(rc::check("each coordinate on its own, the last word counts", [] {
    Signs signs = arbitrary_signs();
    SignVector vector = from(signs);
    for (int i = 0; i < 20 && !signs.empty(); ++i) {
      const auto at = *rc::gen::inRange<std::size_t>(0, signs.size());
      signs[at] = *rc::gen::inRange(-1, 2);
      vector.set(at, signs[at]);
    }
    RC_ASSERT(to_signs(vector) == signs);
    RC_ASSERT(canonical(vector));
    RC_ASSERT(vector.count_present() ==
              signs.size() - static_cast<std::size_t>(std::ranges::count(signs, 0)));
  }));
}

TEST(SignVector, a_bit_is_where_the_header_says) {
  SignVector vector(130);
  vector.set(65, -1);
  vector.set(129, 1);
  EXPECT_EQ(Signs(vector.present().begin(), vector.present().end()), (Signs{0, 2, 2}));
  EXPECT_EQ(Signs(vector.negative().begin(), vector.negative().end()), (Signs{0, 2, 0}));
}

TEST(SignVector, equal_signs_are_equal_vectors) {
  EXPECT_TRUE(rc::check("however they came about", [] {
    const Signs signs = arbitrary_signs();
    SignVector roundabout = from(Signs(signs.size(), *rc::gen::inRange(-1, 2)));
    for (std::size_t i = 0; i < signs.size(); ++i) roundabout.set(i, signs[i]);
    RC_ASSERT(roundabout == from(signs));
    if (!signs.empty()) {
      const auto at = *rc::gen::inRange<std::size_t>(0, signs.size());
      roundabout.set(at, signs[at] == 0 ? 1 : -signs[at]);
      RC_ASSERT(!(roundabout == from(signs)));
      roundabout.set(at, signs[at]);
    }
    RC_ASSERT(!(SignVector(signs.size()) == SignVector(signs.size() + 1)));
  }));
}

TEST(SignVector, reset_is_a_new_one) {
  EXPECT_TRUE(rc::check("whatever it held", [] {
    SignVector vector = from(arbitrary_signs());
    const auto n = *rc::gen::inRange<std::size_t>(0, 300);
    vector.reset(n);
    RC_ASSERT(vector == SignVector(n));
    RC_ASSERT(to_signs(vector) == Signs(n, 0));
    RC_ASSERT(vector.count_present() == 0U);
    RC_ASSERT(canonical(vector));
  }));
}

TEST(SignVector, nothing_is_nothing) {
  EXPECT_EQ(SignVector().size(), 0U);
  EXPECT_EQ(SignVector(), SignVector(0));
  EXPECT_EQ(SignVector().count_present(), 0U);
}

TEST(SignView, is_the_vector_it_was_made_from) {
  EXPECT_TRUE(rc::check("without a copy", [] {
    const Signs signs = arbitrary_signs();
    const SignVector vector = from(signs);
    const SignView view = vector;
    RC_ASSERT(to_signs(view) == signs);
    RC_ASSERT(view.present().data() == vector.present().data());
    RC_ASSERT(view.negative().data() == vector.negative().data());
    RC_ASSERT(view.count_present() == vector.count_present());
    RC_ASSERT(view == from(signs));
    RC_ASSERT(!(view == SignView(SignVector(signs.size() + 1))));
  }));
}

TEST(SignView, a_slice_is_those_coordinates) {
  EXPECT_TRUE(rc::check("from any word to any word or the end, also of a slice", [] {
    const Signs signs = arbitrary_signs();
    const SignVector vector = from(signs);
    SignView view = vector;
    Signs expected = signs;
    for (int i = 0; i < 2; ++i) {
      const auto words = SignVector::words(view.size());
      const auto first = std::min(view.size(), 64 * *rc::gen::inRange<std::size_t>(0, words + 1));
      const auto last = std::min(view.size(), 64 * *rc::gen::inRange<std::size_t>(first / 64, words + 1));
      const std::size_t size = last > first ? last - first : 0;
      view = view.slice(first, size);
      expected = Signs(expected.begin() + static_cast<std::ptrdiff_t>(first),
                       expected.begin() + static_cast<std::ptrdiff_t>(first + size));
      RC_ASSERT(to_signs(view) == expected);
      RC_ASSERT(view == from(expected));
      RC_ASSERT(canonical(view));
    }
  }));
}

template <class Number>
Number number(float value) {
  if constexpr (std::is_same_v<Number, BFloat16>)
    return {static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16)};
  else
    return static_cast<Number>(value);
}

// Each sign as one of several numbers that have it, -0.0 and a denormal among them.
template <class Number>
std::vector<Number> arbitrary_gradient(const Signs& signs) {
  std::vector<Number> gradient;
  for (const int sign : signs)
    gradient.push_back(
        number<Number>(sign == 0 ? *rc::gen::element(0.0F, -0.0F)
                                 : static_cast<float>(sign) * *rc::gen::element(1.5F, 3e38F, 1e-39F)));
  return gradient;
}

template <class Number>
class PublicPack : public testing::Test {};
using Numbers = testing::Types<float, double, BFloat16>;
TYPED_TEST_SUITE(PublicPack, Numbers);

TYPED_TEST(PublicPack, signs_of_a_gradient) {
  EXPECT_TRUE(rc::check("a zero of either sign abstains", [] {
    const Signs signs = arbitrary_signs();
    const std::vector<TypeParam> gradient = arbitrary_gradient<TypeParam>(signs);
    SignVector out = from(arbitrary_signs());  // what it held before must not matter
    RC_ASSERT(!pack(std::span<const TypeParam>(gradient), out).has_value());
    RC_ASSERT(out == from(signs));
  }));
}

TYPED_TEST(PublicPack, a_bad_coordinate_is_named_and_all_abstain) {
  EXPECT_TRUE(rc::check("the first one", [] {
    Signs signs = arbitrary_signs();
    signs.push_back(1);
    std::vector<TypeParam> gradient = arbitrary_gradient<TypeParam>(signs);
    std::size_t first = signs.size();
    for (auto more = *rc::gen::inRange(1, 4); more > 0; --more) {
      const auto at = *rc::gen::inRange<std::size_t>(0, signs.size());
      gradient[at] = number<TypeParam>(
          *rc::gen::element(std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()));
      first = std::min(first, at);
    }
    SignVector out = from(arbitrary_signs());
    RC_ASSERT(pack(std::span<const TypeParam>(gradient), out) == first);
    RC_ASSERT(out == SignVector(signs.size()));
  }));
}

TYPED_TEST(PublicPack, an_empty_gradient) {
  SignVector out = from({1, -1});
  EXPECT_FALSE(pack(std::span<const TypeParam>(), out).has_value());
  EXPECT_EQ(out, SignVector());
}

TEST(PublicStep, moves_against_the_verdict) {
  EXPECT_TRUE(rc::check("x - delta * u; an abstention keeps its bits", [] {
    const Signs signs = arbitrary_signs();
    const auto delta = *rc::gen::element(1e-3F, 0.25F, 1e-4F);
    std::vector<float> x;
    for (std::size_t i = 0; i < signs.size(); ++i)
      x.push_back(signs[i] == 0 && *rc::gen::arbitrary<bool>()
                      ? *rc::gen::element(-0.0F, std::numeric_limits<float>::signaling_NaN())
                      : static_cast<float>(*rc::gen::inRange(-1000, 1000)) * 0.01F);
    std::vector<float> after = x;
    step(after, from(signs), delta);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float expected = signs[i] == 0 ? x[i] : x[i] - delta * static_cast<float>(signs[i]);
      RC_ASSERT(std::bit_cast<std::uint32_t>(after[i]) == std::bit_cast<std::uint32_t>(expected));
    }
  }));
}

TEST(PublicStep, with_decay) {
  std::vector<float> x = {4, -4, 4, 0};
  step(x, from({1, 0, -1, 1}), Step{0.5F, 0.25F});
  EXPECT_EQ(x, (std::vector<float>{2.5F, -3, 3.5F, -0.5F}));
}

TEST(PublicStep, an_empty_model) { step({}, SignVector(), 0.1F); }

}  // namespace
}  // namespace signvote
