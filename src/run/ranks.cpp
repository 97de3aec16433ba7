#include "run/ranks.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
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

Problem current_problem() {
  try {
    throw;
  } catch (const ConfigError& error) {
    return {2, error.what()};
  } catch (const std::bad_alloc&) {
    return {1, "out of memory; take fewer workers, a smaller --micro-batch or fewer --threads"};
  } catch (const std::filesystem::filesystem_error& error) {
    return {1, fmt::format("cannot look at '{}': {}", error.path1().string(), error.code().message())};
  } catch (const std::exception& error) {
    const std::string what = error.what();  // libtorch's goes on with a stack trace
    return {1, what.substr(0, what.find('\n'))};
  }
}

void say(const std::string& problem) {
  fmt::print(stderr, "signvote: {}\n", problem);
  std::fflush(stderr);
}

void on_all_ranks(const MpiSession* session, const std::function<void()>& work) {
  if (session == nullptr) return work();
  std::string mine;  // its exit code, then the text
  try {
    work();
  } catch (const std::exception&) {
    const Problem problem = current_problem();
    mine = fmt::format("{}{}{}", problem.exit_code,
                       session->rank() == 0 ? "" : fmt::format("rank {}: ", session->rank()), problem.text);
  }
  const std::string first = session->first_problem(mine);
  if (first.empty()) return;
  if (session->rank() == 0) say(first.substr(1));
  session->first_problem("");  // all meet again: whoever ends before rank 0 has said it may end rank 0 too
  throw SaidByRank0(first.front() - '0');
}

void end_all_on_error(const MpiSession* session, const std::function<void()>& work) {
  if (session == nullptr) return work();
  try {
    work();
  } catch (const SaidByRank0&) {
    throw;
  } catch (const std::exception&) {
    const Problem problem = current_problem();
    say(fmt::format("rank {}: {}", session->rank(), problem.text));
    session->abort(problem.exit_code);
  }
}

// Open MPI's mpirun, and Slurm's srun with PMIx or PMI2.
int launched_ranks() { return number_in("OMPI_COMM_WORLD_SIZE", number_in("SLURM_STEP_NUM_TASKS", 1)); }

}  // namespace signvote
