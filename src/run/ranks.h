// Errors as the user sees them, also of a program that runs as several ranks: said once, and all of them
// end.
#pragma once

#include <functional>
#include <string>

#include "engine/mpi/mpi_session.h"
#include "signvote/error.h"

namespace signvote {

/// What ends the program: a line for the user, and its exit code.
struct Problem {
  int exit_code = 1;
  std::string text;
};

/// Of the exception that is being handled. REQUIRES: it is a std::exception.
Problem current_problem();

void say(const std::string& problem);

/// Thrown on all ranks once rank 0 has said what is wrong: they end without a word.
class SaidByRank0 : public Error {
 public:
  explicit SaidByRank0(int code) : Error("rank 0 has said it"), exit_code(code) {}
  int exit_code;
};

/// Runs `work` on every rank. If it throws on any, rank 0 says the error of the lowest rank that has
/// one, and this throws SaidByRank0 on all. Without a session there is but one rank, whose errors go to
/// the caller.
void on_all_ranks(const MpiSession* session, const std::function<void()>& work);

/// Runs `work`, which talks to the other ranks, so that an error on this one must end them all: says it
/// and aborts the job. SaidByRank0, which they all have, goes to the caller.
void end_all_on_error(const MpiSession* session, const std::function<void()>& work);

/// Ranks that were started together with this process, as their launcher tells it; 1 if it was not
/// started by one. Known before MPI is.
int launched_ranks();

}  // namespace signvote
