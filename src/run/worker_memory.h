// What a worker of a server keeps on its own disk, so that it goes on exactly after a kill: its memory
// (Learner::memories) and its last ballot. It is written before the ballot is sent. So whichever round the
// server opens next, the worker either has voted in it and says the same again, or has not and votes with the
// memory it had.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/files.h"
#include "engine/engine.h"
#include "signvote/sign_vector.h"

namespace signvote {

/// A worker's last vote.
struct LastVote {
  std::uint64_t round = 0;
  SignVector ballot;
  BatchLoss loss;
};

class WorkerMemory {
 public:
  /// Makes the folder if necessary. Throws DataError if another process uses it.
  WorkerMemory(const std::filesystem::path& folder, std::uint64_t run_id, std::uint32_t worker);

  /// Replaces the file as a whole.
  void save(const LastVote& vote, const std::vector<float>& memory) const;

  /// Returns false if nothing was saved. Throws ConfigError if it was another run or worker, and DataError
  /// if it is damaged or of another model than these `parameters` and `memory` are.
  [[nodiscard]] bool load(std::uint64_t parameters, std::optional<LastVote>& vote,
                          std::vector<float>& memory) const;

 private:
  std::filesystem::path file_;
  std::uint64_t run_id_;
  std::uint32_t worker_;
  FolderLock lock_;
};

}  // namespace signvote
