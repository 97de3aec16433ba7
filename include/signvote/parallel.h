// How the library shares its work among threads: through a loop that its user provides, so that it
// runs in the user's own thread pool.
#pragma once

#include <cstddef>
#include <functional>

namespace signvote {

/// Calls body(index) once for every index below `count`, in any order and from any threads, and returns
/// when all calls have returned. The bodies that the library passes never throw, never wait for each
/// other, and write only what belongs to their index, so results do not depend on the threads.
///
/// An empty ParallelFor stands for a plain loop in the calling thread.
using ParallelFor =
    std::function<void(std::size_t count, const std::function<void(std::size_t index)>& body)>;

}  // namespace signvote
