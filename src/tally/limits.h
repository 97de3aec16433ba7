#pragma once

#include <cstdint>

namespace signvote {

/// A worker's counts are halved when it has taken part in this many rounds. A round adds at most 2 to a
/// half-error count, so counts stay below 2^16.
inline constexpr std::uint32_t kFullRounds = 32767;

/// With so many rounds more, 2t stays below 2^17, and all sums in 1/128 half-errors are exact (see weight.h).
inline constexpr std::uint32_t kMostPriorRounds = 16383;

/// Of what was learnt, a round forgets nothing or a share between these. Method::agree rounds it to 1/65536.
inline constexpr double kLeastForget = 1.0 / 65536;
inline constexpr double kMostForget = 0.5;

}  // namespace signvote
