// Wrappers of MPI calls: errors become exceptions, and a thread that waits leaves its core to others.
#pragma once

// Only the C interface is used; the C++ interface has been removed from the standard.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <chrono>
#include <functional>
#include <string>

namespace signvote::mpi {

/// Throws EngineError if `code` is an error. `doing` completes the sentence "MPI failed ...".
void check(int code, const std::string& doing);

/// The pauses of a loop that waits for a message. MPI's own waiting would keep a core busy on which another
/// rank may be computing gradients.
class BackOff {
 public:
  /// Sleeps for an eighth of the time since the last news, but at most 0.2 ms. So no wait gets longer by
  /// more than an eighth.
  void pause();
  void news() { since_ = Clock::now(); }
  std::chrono::duration<double> waited() const { return Clock::now() - since_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point since_ = Clock::now();
};

/// Waits for one request. `idle`, if given, is called before each pause.
void wait(MPI_Request& request, const std::string& doing,
          const std::function<void(const BackOff&)>& idle = {});

}  // namespace signvote::mpi
