#pragma once

#include <cstdint>

namespace signvote {

/// Twice this is the largest half-error count, which must fit 16 bits.
inline constexpr std::uint32_t kFullRounds = 32767;

}  // namespace signvote
