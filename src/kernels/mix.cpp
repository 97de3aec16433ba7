// A gradient and a worker's momentum, mixed as Lion does it.
#include <algorithm>
#include <array>
#include <limits>

#include "kernels/kernels.h"
#include "kernels/plain.h"

// This file is compiled once for each target: everything up to HWY_ONCE.
#define HWY_TARGET_INCLUDE "kernels/mix.cpp"
#include "kernels/highway.h"

HWY_BEFORE_NAMESPACE();
namespace signvote::kernels::HWY_NAMESPACE {

#if SIGNVOTE_PLAIN_TARGET

using plain::mix_all;

#else

namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Products and sums are rounded one by one, never fused, so that every target gives the same bits.
void mix_all(const float* HWY_RESTRICT gradient, float* HWY_RESTRICT momentum, std::size_t n, float vote_beta,
             float momentum_beta, float* HWY_RESTRICT mixed) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto smallest = hn::Set(d, std::numeric_limits<float>::min());
  const auto mean = [d](auto m, auto g, float beta) HWY_ATTR {
    return hn::Add(hn::Mul(hn::Set(d, beta), m), hn::Mul(hn::Set(d, 1.0F - beta), g));
  };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto g = hn::LoadU(d, gradient + i);
    const auto m = hn::LoadU(d, momentum + i);
    hn::StoreU(mean(m, g, vote_beta), d, mixed + i);
    const auto next = mean(m, g, momentum_beta);
    hn::StoreU(hn::IfThenElseZero(hn::Ge(hn::Abs(next), smallest), next), d, momentum + i);
  }
  plain::mix_all(gradient + i, momentum + i, n - i, vote_beta, momentum_beta, mixed + i);
}

}  // namespace

#endif

}  // namespace signvote::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace signvote::kernels {

HWY_EXPORT(mix_all);

void mix(const float* gradient, float* momentum, std::size_t n, float vote_beta, float momentum_beta,
         float* mixed) noexcept {
  HWY_DYNAMIC_DISPATCH(mix_all)(gradient, momentum, n, vote_beta, momentum_beta, mixed);
}

}  // namespace signvote::kernels
#endif  // HWY_ONCE
