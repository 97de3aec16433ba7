// A fingerprint of a model's parameters, by which replicas are compared.
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <span>

namespace signvote {

/// Replicas are compared before every round whose number, counted from 0, is a multiple of this.
inline constexpr std::uint64_t kDigestEvery = 16;

/// Finds accidents; it is no protection against forgers. A model of 10^8 parameters takes some 40 ms.
inline std::uint64_t digest(std::span<const float> parameters) {
  return XXH3_64bits(parameters.data(), parameters.size_bytes());
}

}  // namespace signvote
