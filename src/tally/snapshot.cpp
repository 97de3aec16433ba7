// A tally's state as bytes. A run may go on with tallies that divide the coordinates in another way
// than those that were saved, so a tally is restored from a set of snapshots and not from one.
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <ranges>

#include "signvote/error.h"
#include "signvote/tally.h"
#include "tally/limits.h"

namespace signvote {
namespace {

/// The fixed part of a snapshot. After it come rounds_of (u32 each), what is known of the whole model (i64
/// each: the agreement before the last round, and the sums after it), half_errors (u16 each, worker by
/// worker), and XXH3 (u64) of all before it. Everything is little-endian, as the machines are.
struct SnapshotHeader {
  std::uint32_t magic = 0x59544756;  // "VGTY"
  std::uint32_t version = 5;         // 1 was for other weights, without: 2 prior_rounds, 3 sums, 4 forget
  std::uint32_t method = 0;
  std::uint32_t workers = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t rounds = 0;
  std::uint32_t initial_rounds = 0;
  std::uint32_t weighted = 0;
  double clip = 0;
  std::uint32_t prior_rounds = 0;
  std::uint32_t sums = 0;  // numbers known of the whole model
  double forget = 0;

  std::uint64_t size() const { return end - begin; }
};
static_assert(sizeof(SnapshotHeader) == 72);

/// A snapshot that was checked by itself, not yet against the others.
struct Part {
  SnapshotHeader header;
  std::vector<std::uint32_t> rounds_of;
  std::vector<std::int64_t> whole;    // what is known of the whole model
  std::span<const std::byte> counts;  // half_errors, at any address; empty without counts

  /// A worker's half_errors on the coordinates [first, last) of the model.
  std::span<const std::byte> counts_of(std::uint32_t worker, std::uint64_t first, std::uint64_t last) const {
    return counts.subspan((worker * header.size() + first - header.begin) * sizeof(std::uint16_t),
                          (last - first) * sizeof(std::uint16_t));
  }
};

Part read_part(std::span<const std::byte> bytes, const TallyOptions& options) {
  Part part;
  SnapshotHeader& header = part.header;
  if (bytes.size() < sizeof(header)) throw DataError("a tally's snapshot is cut short");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != SnapshotHeader{}.magic) throw DataError("these bytes are not a tally's snapshot");
  if (header.version != SnapshotHeader{}.version)
    throw DataError(fmt::format("a tally's snapshot of version {}; this program reads version {}",
                                header.version, SnapshotHeader{}.version));
  if (header.method != static_cast<std::uint32_t>(options.method) || header.workers != options.workers ||
      header.initial_rounds != options.initial_rounds || header.clip != options.clip ||
      header.prior_rounds != options.prior_rounds ||
      header.forget != options.forget.value_or(default_forget(options.method)))
    throw DataError(
        "the snapshot is of a tally with other options (method, workers, initial rounds, clip, prior rounds "
        "or forget)");
  const std::size_t rounds_bytes = header.workers * sizeof(std::uint32_t);
  const std::size_t whole_bytes = header.sums * sizeof(std::int64_t);
  const std::size_t around = sizeof(header) + rounds_bytes + whole_bytes + sizeof(std::uint64_t);
  const bool learns = options.method == Method::it || options.method == Method::shrink;
  // This divides, because a product of numbers from a damaged header might not fit 64 bits.
  const std::size_t row = header.workers * sizeof(std::uint16_t);
  if (header.begin > header.end || bytes.size() < around || (bytes.size() - around) % row != 0 ||
      (bytes.size() - around) / row != (learns ? header.size() : 0))
    throw DataError(fmt::format("a tally's snapshot has {} bytes, which is not its length", bytes.size()));
  std::uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + bytes.size() - sizeof(checksum), sizeof(checksum));
  if (checksum != XXH3_64bits(bytes.data(), bytes.size() - sizeof(checksum)))
    throw DataError("a tally's snapshot is damaged: its checksum is wrong");

  part.rounds_of.resize(header.workers);
  std::memcpy(part.rounds_of.data(), bytes.data() + sizeof(header), rounds_bytes);
  part.whole.resize(header.sums);
  std::ranges::copy(bytes.subspan(sizeof(header) + rounds_bytes, whole_bytes),
                    std::as_writable_bytes(std::span(part.whole)).begin());
  part.counts = bytes.subspan(sizeof(header) + rounds_bytes + whole_bytes, bytes.size() - around);
  for (std::uint32_t m = 0; m < header.workers; ++m) {
    if (part.rounds_of[m] >= kFullRounds)
      throw DataError("a tally's snapshot is wrong: a worker has too many rounds");
    if (!learns) continue;
    const auto counts = part.counts_of(m, header.begin, header.end);
    std::uint16_t most = 0;
    for (std::size_t at = 0; at < counts.size(); at += sizeof(most)) {
      std::uint16_t half_errors = 0;
      std::memcpy(&half_errors, counts.data() + at, sizeof(half_errors));
      most = std::max(most, half_errors);
    }
    if (most > 2 * part.rounds_of[m])
      throw DataError("a tally's snapshot is wrong: a worker has more errors than rounds");
  }
  return part;
}

/// Sorts the parts. Throws DataError unless they are of one round and cover [begin, end) without
/// overlapping.
void check_together(std::vector<Part>& parts, const TallyOptions& options) {
  if (parts.empty()) throw DataError("there is no snapshot of a tally");
  std::ranges::sort(parts, {},
                    [](const Part& part) { return std::pair(part.header.begin, part.header.end); });
  std::uint64_t seen = 0;                 // where the parts so far end
  std::uint64_t covered = options.begin;  // up to here nothing is missing
  for (const Part& part : parts) {
    const SnapshotHeader& header = part.header;
    if (header.rounds != parts[0].header.rounds || header.weighted != parts[0].header.weighted ||
        part.rounds_of != parts[0].rounds_of || part.whole != parts[0].whole)
      throw DataError(
          fmt::format("snapshots of a tally are not of one round: that of coordinates [{}, {}) "
                      "has seen {} rounds, that of [{}, {}) {}",
                      parts[0].header.begin, parts[0].header.end, parts[0].header.rounds, header.begin,
                      header.end, header.rounds));
    if (header.size() == 0) continue;
    if (header.begin < seen)
      throw DataError(
          fmt::format("two snapshots of a tally have coordinate {}: their ranges overlap", header.begin));
    seen = header.end;
    if (header.begin <= covered) covered = std::max(covered, header.end);
  }
  if (covered < options.end)
    throw DataError(fmt::format("no snapshot of the tally has coordinate {}", covered));
}

}  // namespace

std::vector<std::byte> Tally::snapshot() const {
  SnapshotHeader header;
  header.method = static_cast<std::uint32_t>(options_.method);
  header.workers = options_.workers;
  header.begin = options_.begin;
  header.end = options_.end;
  header.rounds = rounds_;
  header.initial_rounds = options_.initial_rounds;
  header.weighted = weighted_ ? 1 : 0;
  header.clip = options_.clip;
  header.prior_rounds = options_.prior_rounds;
  header.forget = forget_share();
  std::vector<std::int64_t> whole = agreement_;
  whole.insert(whole.end(), sums_.begin(), sums_.end());
  header.sums = static_cast<std::uint32_t>(whole.size());
  const std::size_t whole_bytes = whole.size() * sizeof(std::int64_t);
  const std::size_t rounds_bytes = rounds_of_.size() * sizeof(std::uint32_t);
  const std::size_t counts_bytes = counts_.empty() ? 0 : options_.workers * size() * sizeof(std::uint16_t);
  std::vector<std::byte> bytes(sizeof(header) + rounds_bytes + whole_bytes + counts_bytes +
                               sizeof(std::uint64_t));
  std::byte* at = bytes.data();
  const auto append = [&at](const void* part, std::size_t length) {
    at = std::copy_n(static_cast<const std::byte*>(part), length, at);
  };
  append(&header, sizeof(header));
  append(rounds_of_.data(), rounds_bytes);
  append(whole.data(), whole_bytes);
  for (std::uint32_t m = 0; m < options_.workers; ++m) {
    const auto counts = half_errors(m);
    append(counts.data(), counts.size() * sizeof(std::uint16_t));
  }
  const std::uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size() - sizeof(checksum));
  append(&checksum, sizeof(checksum));
  return bytes;
}

void Tally::restore(std::span<const std::span<const std::byte>> parts) {
  std::vector<Part> read;
  for (const std::span<const std::byte> bytes : parts) read.push_back(read_part(bytes, options_));
  check_together(read, options_);
  const std::vector<std::int64_t>& whole = read[0].whole;
  const std::size_t known = agreement_.size();
  if (whole.size() != known && whole.size() != known + pooled().size())
    throw DataError("a tally's snapshot is wrong: it has too many or too few sums");

  rounds_ = read[0].header.rounds;
  weighted_ = read[0].header.weighted != 0;
  rounds_of_ = read[0].rounds_of;
  const auto sums = whole.begin() + static_cast<std::ptrdiff_t>(known);
  agreement_.assign(whole.begin(), sums);
  sums_.assign(sums, whole.end());
  std::ranges::fill(round_agreement_, 0);
  if (!counts()) return;
  for (const Part& part : read) {
    const std::uint64_t first = std::max(part.header.begin, options_.begin);
    const std::uint64_t last = std::min(part.header.end, options_.end);
    if (first >= last) continue;
    for (std::uint32_t m = 0; m < options_.workers; ++m)
      set_half_errors(m, first - options_.begin, part.counts_of(m, first, last));
  }
  for (std::uint32_t m = 0; m < options_.workers; ++m) sum_up(m);
}

/// Replaces a worker's counts from this tally's coordinate `first` on. `counts` may have any alignment.
void Tally::set_half_errors(std::uint32_t worker, std::size_t first, std::span<const std::byte> counts) {
  constexpr std::size_t kBlockCounts = kBlockWords * SignVector::kBits;
  while (!counts.empty()) {
    const std::size_t offset = first % kBlockCounts;
    const std::size_t fit = std::min(kBlockCounts - offset, counts.size() / sizeof(std::uint16_t));
    CountBlock& block = counts_[first / kBlockCounts * options_.workers + worker];
    std::memcpy(block.half_errors.data() + offset, counts.data(), fit * sizeof(std::uint16_t));
    counts = counts.subspan(fit * sizeof(std::uint16_t));
    first += fit;
  }
}

}  // namespace signvote
