// The saved state of a run without a journal. A resumed run gives the same bytes as one that never stopped.
//
// DIR/checkpoint.bin is a state file (docs/journal_format.md has its bytes), replaced atomically. If the
// tally is spread over processes, it holds the leader's shard. The others are in shard-ROUND-BEGIN-END.bin
// beside it and are valid only if a checkpoint of that round names them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/run_state.h"
#include "signvote/tally.h"

namespace signvote {

/// Saves `state` in `folder`, with `tally`'s snapshot as its tally and the names of this round's shards.
/// Throws DataError if these do not cover all coordinates, because some process then writes into another
/// folder. Removes all other shards.
void save_checkpoint(RunState state, const Tally& tally, const std::filesystem::path& folder);

/// Writes this process's shard of the tally. It becomes valid when the leader's checkpoint names it.
void save_shard(const Tally& tally, const std::filesystem::path& folder);

/// Returns nothing if there is no checkpoint. Throws DataError that names the file if it is truncated or
/// damaged.
std::optional<RunState> load_checkpoint(const std::filesystem::path& folder);

/// The number of rounds decided before the checkpoint; 0 if there is none.
std::uint64_t checkpoint_rounds(const std::filesystem::path& folder);

/// Restores a tally of any range from the checkpoint, reading only the shards that overlap that range.
/// Throws DataError.
void restore_tally(const RunState& state, const std::filesystem::path& folder, Tally& tally);

/// Removes all shards but those in `keep`, also half-written ones. Other files are not touched.
void remove_shards(const std::filesystem::path& folder, const std::vector<std::string>& keep);

}  // namespace signvote
