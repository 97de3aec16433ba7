// The saved state of a run without a journal. A resumed run gives the same bytes as one that never stopped.
//
// DIR/checkpoint.bin is a state file (docs/journal_format.md has its bytes), replaced atomically. If the
// tally is spread over processes, it holds the leader's shard. The others are in shard-ROUND-BEGIN-END.bin
// beside it and are valid only if a checkpoint of that round names them. What worker M remembers from round
// to round (its momentum, and what it has not sent) is in memory-ROUND-M.bin, a state file too, valid with
// the checkpoint of that round.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/run_state.h"
#include "signvote/tally.h"

namespace signvote {

/// Saves `state` in `folder`, with `tally`'s snapshot as its tally and the names of this round's shards.
/// Throws DataError if these do not cover all coordinates, or if workers' memories are missing, because some
/// process then writes into another folder. Removes all older shards and memories.
void save_checkpoint(RunState state, const Tally& tally, const std::filesystem::path& folder);

/// Write this process's shard of the tally, and what its workers remember. They become valid with the
/// leader's checkpoint of the same round.
void save_shard(const Tally& tally, const std::filesystem::path& folder);
void save_memories(const RunState& state, const std::filesystem::path& folder);

/// Returns nothing if there is no checkpoint. `hosted` are the workers whose memories are wanted; those that
/// were not saved stay empty. Throws DataError that names the file if one is truncated or damaged.
std::optional<RunState> load_checkpoint(const std::filesystem::path& folder,
                                        std::span<const std::uint32_t> hosted);

/// The number of rounds decided before the checkpoint; 0 if there is none.
std::uint64_t checkpoint_rounds(const std::filesystem::path& folder);

/// Restores a tally of any range from the checkpoint, reading only the shards that overlap that range.
/// Throws DataError.
void restore_tally(const RunState& state, const std::filesystem::path& folder, Tally& tally);

/// Removes all shards but those that the checkpoint names, and all memories but those of its round, also
/// half-written ones. Other files are not touched.
void remove_parts(const std::filesystem::path& folder, const std::vector<std::string>& shards,
                  std::uint64_t round);

}  // namespace signvote
