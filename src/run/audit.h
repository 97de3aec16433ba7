// Looking into a journal from outside: does it hold, and what was the model of a past round?
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "run/config.h"

namespace signvote {

struct Audit {
  std::uint64_t rounds = 0;
  std::uint64_t oldest = 0;   // the first round whose verdict is there
  std::uint64_t decided = 0;  // rounds whose ballots are there and give their verdict again
  std::string model_sha256;   // after all rounds
  std::vector<std::string> remarks;
};

/// Checks every file; decides again what it can; steps from the oldest model to the newest, which must
/// pass through the snapshot. Changes nothing. Throws DataError that names what is wrong.
Audit audit_journal(const TrainConfig& config, const std::filesystem::path& journal);

struct ModelFile {
  std::uint64_t round = 0;
  std::string model_sha256;
};

/// The model after so many rounds (none: all) as model.pt. Needs the run's data set: BatchNorm's statistics
/// are estimated on its training images, and the network takes its shape from them. Throws ConfigError for a
/// round that the journal does not have.
ModelFile write_past_model(const TrainConfig& config, const std::filesystem::path& journal,
                           std::optional<std::uint64_t> round, const std::filesystem::path& out);

}  // namespace signvote
