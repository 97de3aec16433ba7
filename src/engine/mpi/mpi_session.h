// Starts and ends MPI, and lets the ranks of a job agree on things outside of rounds.
#pragma once

#include <cstdint>
#include <string>

#include "engine/group.h"

namespace signvote {

/// The ranks of a job. MPI is initialized for as long as this lives. A process can have only one, and only
/// the thread that made it may use it.
class MpiSession : public Group {
 public:
  /// Throws EngineError if MPI cannot give MPI_THREAD_FUNNELED.
  MpiSession();
  /// Finalizes MPI, but not while an exception is being handled: finalizing waits for the other ranks, and
  /// they may be waiting for this one. See abort.
  ~MpiSession() override;

  std::string first_problem(const std::string& mine) const override;
  std::string of_leader(const std::string& mine) const override { return broadcast(mine, 0); }
  [[noreturn]] void abort(int code) const override;

 private:
  std::string broadcast(const std::string& mine, std::uint32_t from) const;
};

}  // namespace signvote
