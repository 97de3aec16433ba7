// Where a run without a journal stands: enough to go on to the same bytes as if it had never stopped.
//
// DIR/checkpoint.bin is a state file (docs/journal_format.md has its bytes), replaced atomically. Where
// the tally is spread over processes it has the leader's shard; the others lie beside it in
// shard-ROUND-BEGIN-END.bin, which count as soon as a checkpoint of the same round names them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/run_state.h"
#include "signvote/tally.h"

namespace signvote {

/// Writes the whole state. `state.tally` is left out: it is `tally`'s, and the shards' of the same
/// round that are there. Throws DataError if those do not cover the rest of the model's coordinates:
/// then some process writes into another folder. Removes the shards that no longer count.
void save_checkpoint(RunState state, const Tally& tally, const std::filesystem::path& folder);

/// Writes a process's part of the tally, to be named by the leader's checkpoint.
void save_shard(const Tally& tally, const std::filesystem::path& folder);

/// Nothing if there is none. Throws DataError that names the file if it is cut short or damaged.
std::optional<RunState> load_checkpoint(const std::filesystem::path& folder);

/// The rounds that a checkpoint has seen; 0 if there is none.
std::uint64_t checkpoint_rounds(const std::filesystem::path& folder);

/// Brings a tally of any range back to where the checkpoint was. Of the shards it reads those that
/// have a part of that range. Throws DataError.
void restore_tally(const RunState& state, const std::filesystem::path& folder, Tally& tally);

/// Removes all shards but these, whole or half-written. Other files of the folder are not touched.
void remove_shards(const std::filesystem::path& folder, const std::vector<std::string>& keep);

}  // namespace signvote
