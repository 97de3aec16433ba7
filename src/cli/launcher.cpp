#include "cli/launcher.h"

#include <cstdlib>

#include "base/numbers.h"

namespace signvote::cli {

int launched_ranks() {
  // Open MPI's mpirun, and Slurm's srun with PMIx or PMI2.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* text = std::getenv(name); text != nullptr) return parse_number<int>(text).value_or(1);
  return 1;
}

}  // namespace signvote::cli
