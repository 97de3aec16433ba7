#include "engine/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <span>
#include <utility>

#include "base/files.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

/// The round and the coordinates of a shard, which its file name tells.
struct ShardName {
  std::uint64_t round = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::string text() const { return fmt::format("shard-{}-{}-{}.bin", round, begin, end); }
};

/// Returns nothing if this is not a shard's name, because the file then belongs to somebody else.
std::optional<ShardName> parse_shard_name(const std::string& name) {
  ShardName shard;
  std::sscanf(name.c_str(), "shard-%" SCNu64 "-%" SCNu64 "-%" SCNu64, &shard.round, &shard.begin, &shard.end);
  if (shard.begin >= shard.end || shard.text() != name) return std::nullopt;
  return shard;
}

/// The shards of this round in `folder`. Throws DataError if they do not cover [begin, end).
std::vector<std::string> find_shards(const fs::path& folder, std::uint64_t round, std::uint64_t begin,
                                     std::uint64_t end) {
  std::map<std::uint64_t, ShardName> found;  // by where they begin
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const auto shard = parse_shard_name(entry.path().filename().string());
    if (shard && shard->round == round) found[shard->begin] = *shard;
  }
  std::vector<std::string> names;
  while (begin < end) {
    const auto next = found.find(begin);
    if (next == found.end())
      throw DataError(
          fmt::format("the shard of the tally from coordinate {} on is not in '{}'; all ranks "
                      "must see the same folder: choose an --out on storage they share",
                      begin, folder.string()));
    begin = next->second.end;
    names.push_back(next->second.text());
  }
  return names;
}

/// The file of what a worker remembers.
struct MemoryName {
  std::uint64_t round = 0;
  std::uint32_t worker = 0;

  std::string text() const { return fmt::format("memory-{}-{}.bin", round, worker); }
};

std::optional<MemoryName> parse_memory_name(const std::string& name) {
  MemoryName memory;
  std::sscanf(name.c_str(), "memory-%" SCNu64 "-%" SCNu32, &memory.round, &memory.worker);
  if (memory.text() != name) return std::nullopt;
  return memory;
}

fs::path checkpoint_file(const fs::path& folder) { return folder / "checkpoint.bin"; }

}  // namespace

void save_checkpoint(RunState state, const Tally& tally, const fs::path& folder) {
  const std::uint64_t round = state.progress.rounds;
  state.shards = find_shards(folder, round, tally.options().end, state.parameters.size());
  state.tally = tally.snapshot();
  if (std::ranges::any_of(state.memories, [](const auto& memory) { return !memory.empty(); }))
    for (std::uint32_t worker = 0; worker < tally.options().workers; ++worker)
      if (!fs::exists(folder / MemoryName{round, worker}.text()))
        throw DataError(
            fmt::format("the memory of worker {} is not in '{}'; all ranks must see the same "
                        "folder: choose an --out on storage they share",
                        worker, folder.string()));
  const std::vector<std::string> shards = state.shards;
  write_state(checkpoint_file(folder), StateKind::snapshot, to_state(std::move(state)));
  remove_parts(folder, shards, round);
}

void save_memories(const RunState& state, const fs::path& folder) {
  for (std::uint32_t worker = 0; worker < state.memories.size(); ++worker)
    if (!state.memories[worker].empty())
      write_state(folder / MemoryName{state.progress.rounds, worker}.text(), StateKind::memory,
                  {state.progress.rounds, {}, state.memories[worker], {}});
}

std::optional<RunState> load_checkpoint(const fs::path& folder, std::span<const std::uint32_t> hosted) {
  const fs::path file = checkpoint_file(folder);
  if (!fs::exists(file)) return std::nullopt;
  RunState state = from_state(StateFile(file, StateKind::snapshot, std::nullopt).load(), file.string());
  for (const std::uint32_t worker : hosted) {
    const fs::path memory = folder / MemoryName{state.progress.rounds, worker}.text();
    if (!fs::exists(memory)) continue;
    state.memories.resize(std::max<std::size_t>(state.memories.size(), worker + 1));
    state.memories[worker] = StateFile(memory, StateKind::memory, state.progress.rounds).parameters();
  }
  return state;
}

std::uint64_t checkpoint_rounds(const fs::path& folder) {
  const fs::path file = checkpoint_file(folder);
  return fs::exists(file) ? StateFile(file, StateKind::snapshot, std::nullopt).round() : 0;
}

void save_shard(const Tally& tally, const fs::path& folder) {
  const TallyOptions& range = tally.options();
  if (range.begin == range.end) return;
  write_file_atomically(folder / ShardName{tally.rounds(), range.begin, range.end}.text(), tally.snapshot(),
                        Access::owner);
}

void remove_parts(const fs::path& folder, const std::vector<std::string>& shards, std::uint64_t round) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    const bool half_written = name.ends_with(".tmp");  // left by a process that died while writing
    if (half_written) name.resize(name.size() - 4);
    const auto memory = parse_memory_name(name);
    const bool old_shard = parse_shard_name(name) && (half_written || !std::ranges::count(shards, name));
    const bool old_memory = memory && (half_written || memory->round != round);
    if ((old_shard || old_memory) && entry.is_regular_file()) fs::remove(entry.path());
  }
}

void restore_tally(const RunState& state, const fs::path& folder, Tally& tally) {
  const TallyOptions& range = tally.options();
  std::vector<std::vector<std::byte>> shards;
  // The leader's shard is always included, so that all ranks compare theirs with the same round.
  std::vector<std::span<const std::byte>> parts = {state.tally};
  for (const std::string& name : state.shards) {
    const auto shard = parse_shard_name(name);
    if (!shard)
      throw DataError(
          fmt::format("'{}' is damaged: it names a shard '{}'", checkpoint_file(folder).string(), name));
    if (shard->begin < range.end && range.begin < shard->end) shards.push_back(read_file(folder / name));
  }
  parts.insert(parts.end(), shards.begin(), shards.end());
  tally.restore(parts);
}

}  // namespace signvote
