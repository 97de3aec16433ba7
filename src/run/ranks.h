// Errors of a program that runs as several ranks: said once, and all of them end.
#pragma once

#include <functional>

#include "engine/mpi/mpi_engine.h"
#include "signvote/error.h"

namespace signvote {

/// Thrown on the other ranks when rank 0 has thrown the error: they end without a word.
class SaidByRank0 : public Error {
 public:
  explicit SaidByRank0(int code) : Error("another rank reports the error"), exit_code(code) {}
  int exit_code;
};

/// Runs `work` on every rank. If it throws on any, this throws on all: on rank 0 the error of the
/// lowest rank that has one. Without a session there is but one rank.
void on_all_ranks(const MpiSession* session, const std::function<void()>& work);

/// Runs `work`, which talks to the other ranks, so that an error on this one must end them all: says it
/// and aborts the job.
void end_all_on_error(const MpiSession* session, const std::function<void()>& work);

/// Ranks that were started together with this process, as their launcher tells it; 1 if it was not
/// started by one. Known before MPI is.
int launched_ranks();
/// This process's number among them.
int launched_rank();

}  // namespace signvote
