// A server's journal seen from outside: is all of it whole, and does it fit together? Knows nothing of torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "run/config.h"

namespace signvote {

/// The settings of the run in a server's --state. Throws ConfigError if there is no run of a server;
/// DataError if its journal has lost what it begins with, because a server must not begin anew there.
TrainConfig load_server_run(const std::filesystem::path& state);

struct Audit {
  std::uint64_t rounds = 0;
  std::uint64_t oldest = 0;   // the first round whose verdict is there
  std::uint64_t decided = 0;  // rounds whose ballots are there and give their verdict again
  std::string model_sha256;   // after all rounds
  std::vector<std::string> remarks;
};

/// Checks every file, decides again every round whose ballots are there, and steps from the oldest model to
/// the newest, which must pass through the snapshot. Changes nothing. Throws DataError that names what is
/// wrong.
Audit audit_journal(const TrainConfig& config, const std::filesystem::path& journal);

}  // namespace signvote
