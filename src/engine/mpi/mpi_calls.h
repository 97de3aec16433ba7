// Calls of MPI as the rest of the program would have them: errors are exceptions, and waiting leaves the
// core to others.
#pragma once

// The C interface alone; the C++ one is long gone from the standard.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <chrono>
#include <functional>
#include <string>

namespace signvote::mpi {

/// Throws EngineError if `code` is an error; `doing` says of what.
void check(int code, const std::string& doing);

/// The pause between two looks at what has not come yet. MPI's own waiting would burn a core, which on a
/// machine with several ranks is one that computes gradients.
class BackOff {
 public:
  /// Sleeps about an eighth of the time since the last news, so that waiting is prolonged by no more than
  /// that, and 0.2 ms at most.
  void pause();
  void news() { since_ = Clock::now(); }
  std::chrono::duration<double> waited() const { return Clock::now() - since_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point since_ = Clock::now();
};

/// Waits for one request. `idle`, if any, is called now and then.
void wait(MPI_Request& request, const std::string& doing,
          const std::function<void(const BackOff&)>& idle = {});

}  // namespace signvote::mpi
