// How often each two ballots agree, on packed bits.
#include <bit>

#include "kernels/kernels.h"
#include "kernels/plain.h"

// This file is compiled once for each target: everything up to HWY_ONCE.
#define HWY_TARGET_INCLUDE "kernels/agreement.cpp"
#include "kernels/highway.h"

HWY_BEFORE_NAMESPACE();
namespace signvote::kernels::HWY_NAMESPACE {

#if SIGNVOTE_PLAIN_TARGET

using plain::agreement_all;

#else

namespace {

namespace hn = hwy::HWY_NAMESPACE;

void agreement_all(std::span<const Planes> ballots, std::size_t first, std::size_t last, PairCount* counts) {
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t in_vectors = first + (last - first) / lanes * lanes;
  PairCount* count = counts;
  for (std::size_t i = 1; i < ballots.size(); ++i)
    for (std::size_t j = 0; j < i; ++j, ++count) {
      auto both = hn::Zero(d);
      auto differ = hn::Zero(d);
      for (std::size_t word = first; word < in_vectors; word += lanes) {
        const auto present =
            hn::And(hn::LoadU(d, ballots[i].present + word), hn::LoadU(d, ballots[j].present + word));
        const auto unequal =
            hn::Xor(hn::LoadU(d, ballots[i].negative + word), hn::LoadU(d, ballots[j].negative + word));
        both = hn::Add(both, hn::PopulationCount(present));
        differ = hn::Add(differ, hn::PopulationCount(hn::And(present, unequal)));
      }
      const auto sum = [d](auto v)
                           HWY_ATTR { return static_cast<std::int64_t>(hn::GetLane(hn::SumOfLanes(d, v))); };
      count->both += sum(both);
      count->agreement += sum(both) - 2 * sum(differ);
    }
  plain::agreement_all(ballots, in_vectors, last, counts);
}

}  // namespace

#endif

}  // namespace signvote::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace signvote::kernels {

HWY_EXPORT(agreement_all);

void count_agreement(std::span<const Planes> ballots, std::size_t first, std::size_t last,
                     PairCount* counts) noexcept {
  HWY_DYNAMIC_DISPATCH(agreement_all)(ballots, first, last, counts);
}

}  // namespace signvote::kernels
#endif  // HWY_ONCE
