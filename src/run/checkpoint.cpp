#include "run/checkpoint.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/files.h"
#include "signvote/error.h"

namespace signvote {
namespace {

struct Header {
  std::array<char, 8> magic = {'S', 'V', 'C', 'H', 'E', 'C', 'K', '1'};
  std::uint64_t progress_bytes = 0;
  std::uint64_t parameter_bytes = 0;
  std::uint64_t tally_bytes = 0;
};

}  // namespace

void save_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& file) {
  const LocalEngine::Traffic& traffic = checkpoint.traffic;
  const nlohmann::json counters = {{"run_id", checkpoint.run_id},
                                   {"rounds", checkpoint.rounds},
                                   {"metrics_bytes", checkpoint.metrics_bytes},
                                   {"seconds", checkpoint.seconds},
                                   {"training_seconds", checkpoint.training_seconds},
                                   {"absences", checkpoint.absences},
                                   {"ballots", traffic.ballots},
                                   {"ballot_bytes", traffic.ballot_bytes},
                                   {"verdicts", traffic.verdicts},
                                   {"verdict_bytes", traffic.verdict_bytes}};
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

Checkpoint load_checkpoint(const std::filesystem::path& file) {
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
    progress.at("rounds").get_to(checkpoint.rounds);
    progress.at("metrics_bytes").get_to(checkpoint.metrics_bytes);
    progress.at("seconds").get_to(checkpoint.seconds);
    progress.at("training_seconds").get_to(checkpoint.training_seconds);
    progress.at("absences").get_to(checkpoint.absences);
    progress.at("ballots").get_to(checkpoint.traffic.ballots);
    progress.at("ballot_bytes").get_to(checkpoint.traffic.ballot_bytes);
    progress.at("verdicts").get_to(checkpoint.traffic.verdicts);
    progress.at("verdict_bytes").get_to(checkpoint.traffic.verdict_bytes);
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

}  // namespace signvote
