// Checks a server's journal: is every file whole, and do they fit together? Does not use torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "run/config.h"

namespace signvote {

/// The settings of the run in a server's --state. Throws ConfigError if there is no server's run, and
/// DataError if its journal has lost its beginning, because a server must not begin anew there.
TrainConfig load_server_run(const std::filesystem::path& state);

struct Audit {
  std::uint64_t rounds = 0;
  std::uint64_t oldest = 0;   // the first round whose verdict is kept
  std::uint64_t decided = 0;  // rounds whose ballots are kept and give the same verdict again
  std::string model_sha256;   // after all rounds
  std::vector<std::string> remarks;
};

/// Checks every file, decides every round again whose ballots are kept, and steps from the oldest model to
/// the newest; on the way it must meet the snapshot's model. Changes nothing. Throws DataError that names
/// what is wrong.
Audit audit_journal(const TrainConfig& config, const std::filesystem::path& journal);

}  // namespace signvote
