// Where a run stands: enough to go on to the same bytes as if it had never stopped.
//
// checkpoint.bin: magic, version, the lengths of three parts, the parts (progress as JSON, parameters,
// the tally's snapshot), and an XXH3 of all before it. Replaced atomically.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "engine/local/local_engine.h"

namespace signvote {

struct Checkpoint {
  std::uint64_t run_id = 0;         // of the settings it was made with
  std::uint64_t rounds = 0;         // finished
  std::uint64_t metrics_bytes = 0;  // length of metrics.jsonl then
  double seconds = 0;               // spent on the run so far,
  double training_seconds = 0;      // and of these not on evaluating and saving
  std::uint64_t absences = 0;       // ballots not cast because a gradient was NaN or infinite
  LocalEngine::Traffic traffic;
  std::vector<float> parameters;
  std::vector<std::byte> tally;
};

void save_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& file);

/// Throws DataError that names the file if it is missing, cut short, or damaged.
Checkpoint load_checkpoint(const std::filesystem::path& file);

}  // namespace signvote
