// What starts a program as several ranks (mpirun, srun), and how a program was started.
#pragma once

#include <string>

namespace signvote::cli {

/// Ranks that were started together with this process, as their launcher tells it; 1 if there was none. Needs
/// no MPI.
int launched_ranks();

/// How to start the program again: "build/signvote", or with its launcher before it, "mpirun -n 3 signvote".
std::string program_as_typed();

/// `word` as it can be pasted into a shell.
std::string shell_word(const std::string& word);

}  // namespace signvote::cli
