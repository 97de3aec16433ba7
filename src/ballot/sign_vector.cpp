#include "signvote/sign_vector.h"

#include <bit>
#include <numeric>

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

std::size_t SignVector::count_present() const {
  return std::accumulate(present_.begin(), present_.end(), std::size_t{0},
                         [](std::size_t sum, std::uint64_t word) {
                           return sum + static_cast<std::size_t>(std::popcount(word));
                         });
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

void step(std::span<float> parameters, const SignVector& verdict, float delta) {
  assert(parameters.size() == verdict.size());
  kernels::step(parameters.data(), parameters.size(), verdict.present().data(), verdict.negative().data(),
                delta);
}

}  // namespace signvote
