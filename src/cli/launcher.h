// What starts a program as several ranks (mpirun, srun), and how a program was started.
#pragma once

#include <string>
#include <vector>

namespace signvote::cli {

/// Ranks that were started together with this process, as their launcher tells it; 1 if there was none. Needs
/// no MPI.
int launched_ranks();

/// The command that started this process, with its launcher, as it can be pasted into a shell.
std::string typed_command();

/// The same with other arguments: "build/signvote train --resume runs/first".
std::string typed_command_with(const std::vector<std::string>& arguments);

}  // namespace signvote::cli
