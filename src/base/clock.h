// Times that are measured, as seconds.
#pragma once

#include <chrono>

namespace signvote {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace signvote
