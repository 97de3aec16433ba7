// How far a run is: for its files, its checkpoints and its snapshots.
#pragma once

#include <cstdint>

#include "engine/engine.h"

namespace signvote {

struct RunProgress {
  std::uint64_t rounds = 0;     // finished
  std::uint64_t absences = 0;   // ballots that were not there
  double samples = 0;           // that gradients were computed of
  double seconds = 0;           // spent on the run so far,
  double training_seconds = 0;  // and of these not on evaluating and saving
  Traffic traffic;
};

}  // namespace signvote
