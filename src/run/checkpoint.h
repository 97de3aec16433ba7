// Where a run stands: enough to go on to the same bytes as if it had never stopped.
//
// checkpoint.bin: a magic that ends with the version, the lengths of three parts, the parts (progress as
// JSON, parameters, the tally's snapshot), and an XXH3 of all before it. Replaced atomically. Where the tally
// is spread over processes, that is the leader's shard; the others lie in files of their own, which count as
// soon as a checkpoint of the same round names them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "run/record.h"
#include "signvote/tally.h"

namespace signvote {

struct Checkpoint {
  std::uint64_t run_id = 0;         // of the settings it was made with
  std::uint64_t metrics_bytes = 0;  // length of metrics.jsonl then
  RunProgress progress;
  std::vector<std::string> shards;  // names of the files with the rest of the tally
  std::vector<float> parameters;
  std::vector<std::byte> tally;
};

void save_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& file);

/// Throws DataError that names the file if it is missing, cut short, or damaged.
Checkpoint load_checkpoint(const std::filesystem::path& file);

/// Writes a shard of the tally, [begin, end), beside checkpoint.bin: shard-ROUND-BEGIN-END.bin.
void save_shard(const Tally& tally, const std::filesystem::path& folder);

/// The shards of this round that are there, from coordinate `begin` on. Throws DataError if they do not
/// reach to `end`: then some process writes into another folder.
std::vector<std::string> find_shards(const std::filesystem::path& folder, std::uint64_t round,
                                     std::uint64_t begin, std::uint64_t end);

/// Removes all shards but these, whole or half-written. Other files of the folder are not touched.
void remove_shards(const std::filesystem::path& folder, const std::vector<std::string>& keep);

/// Brings a tally of any range back to where the checkpoint was. Of the shards it reads those that have a
/// part of that range. Throws DataError.
void restore_tally(const Checkpoint& checkpoint, const std::filesystem::path& folder, Tally& tally);

}  // namespace signvote
