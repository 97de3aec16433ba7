// MPI's beginning and end, and what the ranks of a job have to agree on outside of rounds.
#pragma once

#include <cstdint>
#include <string>

#include "engine/group.h"

namespace signvote {

/// The ranks of a job. MPI is initialized for as long as this lives. A process can have one, and only the thread that made it
/// may use it.
class MpiSession : public Group {
 public:
  /// Throws EngineError if MPI cannot give MPI_THREAD_FUNNELED.
  MpiSession();
  /// Finalizes MPI, except while an exception is being handled: that would wait for the other ranks, which
  /// may wait for this one. See abort.
  ~MpiSession() override;

  std::string first_problem(const std::string& mine) const override;
  std::string of_leader(const std::string& mine) const override { return broadcast(mine, 0); }
  [[noreturn]] void abort(int code) const override;

 private:
  std::string broadcast(const std::string& mine, std::uint32_t from) const;
};

}  // namespace signvote
