// MPI's beginning and end, and what the ranks of a job have to agree on outside of rounds.
#pragma once

#include <cstdint>
#include <string>

namespace signvote {

/// MPI is initialized for as long as this lives. A process can have one, and only the thread that made it
/// may use it.
class MpiSession {
 public:
  /// Throws EngineError if MPI cannot give MPI_THREAD_FUNNELED.
  MpiSession();
  /// Finalizes MPI, except while an exception is being handled: that would wait for the other ranks, which
  /// may wait for this one. See abort.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Whether this process has had one.
  static bool begun();

  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return ranks_; }

  /// Every rank calls this with its problem, or with an empty text if it has none. All of them get the
  /// problem of the lowest rank that has one, so that an error that all ranks see is printed once.
  std::string first_problem(const std::string& mine) const;

  /// Every rank calls this; all of them get rank 0's text.
  std::string of_rank0(const std::string& mine) const { return broadcast(mine, 0); }

  /// Ends the whole job with this exit code.
  [[noreturn]] void abort(int code) const;

 private:
  std::string broadcast(const std::string& mine, std::uint32_t from) const;

  std::uint32_t rank_ = 0;
  std::uint32_t ranks_ = 1;
};

}  // namespace signvote
