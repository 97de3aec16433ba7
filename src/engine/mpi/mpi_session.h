// MPI's beginning and end, and what the ranks of a job have to agree on outside of rounds.
#pragma once

#include <cstdint>
#include <string>

#include "engine/group.h"

namespace signvote {

/// The ranks of a job, and MPI for as long as this lives. One a process.
class MpiSession : public Group {
 public:
  /// Throws EngineError if MPI cannot give MPI_THREAD_FUNNELED.
  MpiSession();
  /// Finalizes; while an exception unwinds it does not (that would wait for the others): see abort.
  ~MpiSession() override;

  std::string first_problem(const std::string& mine) const override;
  std::string of_leader(const std::string& mine) const override { return broadcast(mine, 0); }
  [[noreturn]] void abort(int code) const override;

 private:
  std::string broadcast(const std::string& mine, std::uint32_t from) const;
};

}  // namespace signvote
