// RunProgress as JSON, for checkpoints and snapshots.
#pragma once

#include <nlohmann/json.hpp>

#include "run/run_progress.h"

namespace signvote {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Traffic, ballots, ballot_bytes, verdicts, verdict_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunProgress, rounds, absences, samples, seconds, training_seconds, traffic)

}  // namespace signvote
