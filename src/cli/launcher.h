// What starts a program as several ranks: mpirun, srun.
#pragma once

namespace signvote::cli {

/// Ranks that were started together with this process, as their launcher tells it; 1 if there was none. Needs
/// no MPI.
int launched_ranks();

}  // namespace signvote::cli
