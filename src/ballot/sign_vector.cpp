#include "signvote/sign_vector.h"

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/kernels.h"

namespace signvote {
namespace {

std::optional<std::size_t> pack_span(const auto* values, std::size_t n, SignVector& out) {
  if (out.size() != n) out.reset(n);
  const std::size_t bad = kernels::pack(values, n, out.present().data(), out.negative().data());
  if (bad == n) return std::nullopt;
  out.reset(n);
  return bad;
}

}  // namespace

std::size_t SignView::count_present() const {
  std::size_t count = 0;
  for (const std::uint64_t word : present()) count += static_cast<std::size_t>(std::popcount(word));
  return count;
}

bool operator==(SignView a, SignView b) {
  return a.size_ == b.size_ && std::ranges::equal(a.present(), b.present()) &&
         std::ranges::equal(a.negative(), b.negative());
}

std::optional<std::size_t> pack(std::span<const float> gradient, SignVector& out) {
  return pack_span(gradient.data(), gradient.size(), out);
}

std::optional<std::size_t> pack(std::span<const double> gradient, SignVector& out) {
  return pack_span(gradient.data(), gradient.size(), out);
}

std::optional<std::size_t> pack(std::span<const BFloat16> gradient, SignVector& out) {
  static_assert(sizeof(BFloat16) == sizeof(std::uint16_t));
  return pack_span(reinterpret_cast<const std::uint16_t*>(gradient.data()), gradient.size(), out);
}

std::optional<std::size_t> pack(std::span<const float> gradient, std::span<float> momentum,
                                const Betas& betas, SignVector& out) {
  assert(momentum.size() == gradient.size());
  if (const auto bad = pack(gradient, out)) return bad;
  // In tiles that stay in the first-level cache: the mix is signed at once and never kept.
  constexpr std::size_t kTile = 32 * SignVector::kBits;
  std::array<float, kTile> mixed;
  for (std::size_t i = 0; i < gradient.size(); i += kTile) {
    const std::size_t n = std::min(kTile, gradient.size() - i);
    kernels::mix(gradient.data() + i, momentum.data() + i, n, betas.vote, betas.momentum, mixed.data());
    kernels::pack(mixed.data(), n, out.present().data() + i / SignVector::kBits,
                  out.negative().data() + i / SignVector::kBits);
  }
  return std::nullopt;
}

void step(std::span<float> parameters, SignView verdict, Step step) {
  assert(parameters.size() == verdict.size());
  kernels::step(parameters.data(), parameters.size(), verdict.present().data(), verdict.negative().data(),
                step.delta, step.decay);
}

}  // namespace signvote
