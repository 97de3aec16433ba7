#include "run/checkpoint.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "base/files.h"
#include "run/progress_json.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

struct Header {
  std::array<char, 8> magic = {'S', 'V', 'C', 'H', 'E', 'C', 'K', '2'};
  std::uint64_t progress_bytes = 0;
  std::uint64_t parameter_bytes = 0;
  std::uint64_t tally_bytes = 0;
};

/// A shard's name says all about it.
struct ShardName {
  std::uint64_t round = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::string text() const { return fmt::format("shard-{}-{}-{}.bin", round, begin, end); }
};

/// Nothing if no shard is called so: the file is somebody else's.
std::optional<ShardName> parse_shard_name(const std::string& name) {
  ShardName shard;
  std::sscanf(name.c_str(), "shard-%" SCNu64 "-%" SCNu64 "-%" SCNu64, &shard.round, &shard.begin, &shard.end);
  if (shard.begin >= shard.end || shard.text() != name) return std::nullopt;
  return shard;
}

}  // namespace

void save_checkpoint(const Checkpoint& checkpoint, const fs::path& file) {
  const nlohmann::json counters = {{"run_id", checkpoint.run_id},
                                   {"metrics_bytes", checkpoint.metrics_bytes},
                                   {"progress", checkpoint.progress},
                                   {"shards", checkpoint.shards}};
  const std::string progress = counters.dump();
  Header header;
  header.progress_bytes = progress.size();
  header.parameter_bytes = checkpoint.parameters.size() * sizeof(float);
  header.tally_bytes = checkpoint.tally.size();
  std::vector<std::byte> bytes;
  bytes.reserve(sizeof(header) + header.progress_bytes + header.parameter_bytes + header.tally_bytes + 8);
  const auto append = [&bytes](std::span<const std::byte> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  };
  append(std::as_bytes(std::span(&header, 1)));
  append(std::as_bytes(std::span(progress)));
  append(std::as_bytes(std::span(checkpoint.parameters)));
  append(checkpoint.tally);
  const std::uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size());
  append(std::as_bytes(std::span(&checksum, 1)));
  write_file_atomically(file, bytes);
}

Checkpoint load_checkpoint(const fs::path& file) {
  const std::vector<std::byte> bytes = read_file(file);
  const auto refuse = [&file](const char* what) {
    throw DataError(fmt::format("'{}' {}; the run cannot be resumed from it", file.string(), what));
  };
  Header header;
  std::uint64_t checksum = 0;
  if (bytes.size() < sizeof(header) + sizeof(checksum)) refuse("is cut short");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != Header{}.magic) refuse("is not a checkpoint of this version of signvote");
  const std::size_t body = bytes.size() - sizeof(checksum);
  std::memcpy(&checksum, bytes.data() + body, sizeof(checksum));
  if (checksum != XXH3_64bits(bytes.data(), body)) refuse("is damaged: its checksum is wrong");
  std::size_t left = body - sizeof(header);
  for (const std::uint64_t part : {header.progress_bytes, header.parameter_bytes, header.tally_bytes}) {
    if (part > left) refuse("is damaged: its parts are longer than the file");
    left -= part;
  }
  if (left != 0 || header.parameter_bytes % sizeof(float) != 0)
    refuse("is damaged: its parts do not fill the file");

  const std::byte* at = bytes.data() + sizeof(header);
  const auto* text = reinterpret_cast<const char*>(at);
  Checkpoint checkpoint;
  try {
    const auto progress = nlohmann::json::parse(text, text + header.progress_bytes);
    progress.at("run_id").get_to(checkpoint.run_id);
    progress.at("metrics_bytes").get_to(checkpoint.metrics_bytes);
    progress.at("progress").get_to(checkpoint.progress);
    progress.at("shards").get_to(checkpoint.shards);
  } catch (const nlohmann::json::exception&) {
    refuse("is damaged: its progress cannot be read");
  }
  at += header.progress_bytes;
  checkpoint.parameters.resize(header.parameter_bytes / sizeof(float));
  std::memcpy(checkpoint.parameters.data(), at, header.parameter_bytes);
  at += header.parameter_bytes;
  checkpoint.tally.assign(at, at + header.tally_bytes);
  return checkpoint;
}

void save_shard(const Tally& tally, const fs::path& folder) {
  const TallyOptions& range = tally.options();
  if (range.begin == range.end) return;
  write_file_atomically(folder / ShardName{tally.rounds(), range.begin, range.end}.text(), tally.snapshot());
}

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

void remove_shards(const fs::path& folder, const std::vector<std::string>& keep) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (std::ranges::find(keep, name) != keep.end()) continue;
    if (name.ends_with(".tmp")) name.resize(name.size() - 4);  // of a process that died while it wrote
    if (parse_shard_name(name) && entry.is_regular_file()) fs::remove(entry.path());
  }
}

void restore_tally(const Checkpoint& checkpoint, const fs::path& folder, Tally& tally) {
  const TallyOptions& range = tally.options();
  std::vector<std::vector<std::byte>> shards;
  // The leader's is always among them, so that all ranks compare theirs with the same round.
  std::vector<std::span<const std::byte>> parts = {checkpoint.tally};
  for (const std::string& name : checkpoint.shards) {
    const auto shard = parse_shard_name(name);
    if (!shard)
      throw DataError(
          fmt::format("'{}' is damaged: it names a shard '{}'", (folder / "checkpoint.bin").string(), name));
    if (shard->begin < range.end && range.begin < shard->end) shards.push_back(read_file(folder / name));
  }
  parts.insert(parts.end(), shards.begin(), shards.end());
  tally.restore(parts);
}

}  // namespace signvote
