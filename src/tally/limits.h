#pragma once

#include <cstdint>

namespace signvote {

/// A worker's counts are halved when it has taken part in this many rounds. A round adds at most 2 to a
/// half-error count, so counts stay below 2^16.
inline constexpr std::uint32_t kFullRounds = 32767;

}  // namespace signvote
