#include "run/ranks.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

namespace signvote {
namespace {

int number_in(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  int value = otherwise;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), value);
  return value;
}

}  // namespace

void on_all_ranks(const MpiSession* session, const std::function<void()>& work) {
  if (session == nullptr) return work();
  std::string mine;  // its exit code, then the text
  const auto say = [&](char code, const char* what) {
    mine = session->rank() == 0 ? fmt::format("{}{}", code, what)
                                : fmt::format("{}rank {}: {}", code, session->rank(), what);
  };
  try {
    work();
  } catch (const ConfigError& error) {
    say('2', error.what());
  } catch (const std::exception& error) {
    say('1', error.what());
  }
  const std::string first = session->first_problem(mine);
  if (first.empty()) return;
  const bool usage = first.front() == '2';
  if (session->rank() != 0) throw SaidByRank0(usage ? 2 : 1);
  if (usage) throw ConfigError(first.substr(1));
  throw Error(first.substr(1));
}

void end_all_on_error(const MpiSession* session, const std::function<void()>& work) {
  if (session == nullptr) return work();
  try {
    work();
  } catch (const std::exception& error) {
    const std::string what = error.what();
    fmt::print(stderr, "signvote: rank {}: {}\n", session->rank(), what.substr(0, what.find('\n')));
    std::fflush(stderr);
    session->abort(1);
  }
}

// Open MPI's mpirun, and Slurm's srun with PMIx or PMI2.
int launched_ranks() { return number_in("OMPI_COMM_WORLD_SIZE", number_in("SLURM_STEP_NUM_TASKS", 1)); }
int launched_rank() {
  return number_in("OMPI_COMM_WORLD_RANK", launched_ranks() > 1 ? number_in("SLURM_PROCID", 0) : 0);
}

}  // namespace signvote
