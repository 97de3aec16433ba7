// Takes the model of a past round out of a server's journal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "run/config.h"

namespace signvote {

struct ModelFile {
  std::uint64_t round = 0;
  std::string model_sha256;
};

/// Writes the model after `round` rounds (none: after all) as model.pt. Needs the run's data set, because
/// the network takes its shape from it and BatchNorm's statistics are estimated on its training images. A run
/// without a network needs nothing, and its model is written in the form of its first parameters.
/// Throws ConfigError if the journal does not have that round.
ModelFile write_past_model(const TrainConfig& config, const std::filesystem::path& journal,
                           std::optional<std::uint64_t> round, const std::filesystem::path& out);

}  // namespace signvote
