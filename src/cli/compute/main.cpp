// signvote-compute: all of signvote's commands, those that compute as well. signvote starts it when it is
// needed.

#include <exception>
#include <string_view>

#include "cli/command_line.h"
#include "cli/compute/commands.h"
#include "cli/compute/ranks.h"
#include "cli/launcher.h"
#include "cli/problem.h"
#include "engine/mpi/mpi_session.h"

namespace signvote::cli {
namespace {

/// Says why the program ends with the current exception. Returns the exit code.
int fail(bool trains) {
  const Problem problem = current_problem();
  if (trains && launched_ranks() > 1) {
    // The other ranks either have the same error, which should be said once, or wait for this one in MPI. So
    // it meets them there.
    try {
      const MpiSession session;
      return end_together(session, [&]() -> int {
        on_all_ranks(session, [] { throw; });
        return problem.exit_code;
      });
    } catch (const std::exception&) {  // it is alone after all
    }
  }
  say(problem.text);
  return problem.exit_code;
}

}  // namespace
}  // namespace signvote::cli

int main(int argc, char** argv) {
  using namespace signvote::cli;
  try {
    return run_command_line(
        argc, argv,
        {run_train, run_figure1, run_table, run_eval, run_server, run_worker, run_model, run_inspect});
  } catch (const std::exception&) {
    return fail(argc > 1 && std::string_view(argv[1]) == "train");
  }
}
