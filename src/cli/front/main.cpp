// signvote: reads and checks the command line, and does what needs neither torch nor gRPC nor MPI. These
// bring over 300 libraries, which take a second to load. Commands that compute are handed over to
// signvote-compute, which takes the place of this process, with the same arguments.

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "cli/command_line.h"
#include "cli/launcher.h"
#include "cli/needs.h"
#include "cli/problem.h"
#include "signvote/error.h"

namespace signvote::cli {
namespace {

namespace fs = std::filesystem;

/// Throws if it cannot. argv[0] stays as it is, so that the process looks as it was started.
[[noreturn]] void hand_over(char** argv) {
  // OpenBLAS starts threads when it is loaded. The program calls it in its own threads and lets it have none.
  ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  fs::path program = folder / "signvote-compute";
  const fs::path installed = folder / SIGNVOTE_LIBEXEC / "signvote-compute";
  if (!fs::exists(program) && fs::exists(installed)) program = installed;
  ::execv(program.c_str(), argv);
  throw Error(fmt::format("cannot start '{}': {}; install it beside signvote", program.string(),
                          std::strerror(errno)));
}

int run(int argc, char** argv) {
  const bool trains = argc > 1 && std::string_view(argv[1]) == "train";
  // Ranks need MPI even for an error, because they say it once for all of them.
  if (trains && launched_ranks() > 1) hand_over(argv);
  const auto compute = [argv](const auto& command) -> int {
    check_limits(needs_of(command));
    hand_over(argv);
  };
  return run_command_line(argc, argv,
                          {compute, compute, compute, compute, compute, compute, compute, compute});
}

}  // namespace
}  // namespace signvote::cli

int main(int argc, char** argv) {
  using namespace signvote::cli;
  try {
    return run(argc, argv);
  } catch (const std::exception&) {
    const Problem problem = current_problem();
    say(problem.text);
    return problem.exit_code;
  }
}
