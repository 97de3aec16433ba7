#include "signvote/tally.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>

#include "kernels/kernels.h"
#include "kernels/weight.h"
#include "signvote/error.h"
#include "signvote/thread_pool.h"

namespace signvote {
namespace {

/// Twice this is the largest half-error count, which must fit 16 bits.
constexpr std::uint32_t kFullRounds = 32767;

/// Words (of 64 coordinates) a task decides at a time: 15 workers' counts of them fit the L2 cache.
constexpr std::size_t kTaskWords = 128;

kernels::Planes planes(const SignVector& signs) { return {signs.present().data(), signs.negative().data()}; }

/// The fixed part of a snapshot; then rounds_of (u32 each), half_errors (u16 each), and XXH3 (u64) of
/// all before it. Little-endian, as the machines are.
struct SnapshotHeader {
  std::uint32_t magic = 0x59544756;  // "VGTY"
  std::uint32_t version = 2;         // 1 was of other weights
  std::uint32_t method = 0;
  std::uint32_t workers = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t rounds = 0;
  std::uint32_t initial_rounds = 0;
  std::uint32_t weighted = 0;
  double clip = 0;
};
static_assert(sizeof(SnapshotHeader) == 56);

}  // namespace

Tally::Tally(const TallyOptions& options, ThreadPool* pool) : options_(options), pool_(pool) {
  if (options.workers == 0) throw ConfigError("a tally needs at least one worker");
  if (options.begin > options.end)
    throw ConfigError(fmt::format("a tally's range [{}, {}) runs backwards", options.begin, options.end));
  if (!(options.clip >= kMinClip && options.clip <= kMaxClip))
    throw ConfigError(
        fmt::format("clip is {}; it must be between {} and {}", options.clip, kMinClip, kMaxClip));
  if (options.initial_rounds == 0 || options.initial_rounds > kFullRounds / 2)
    throw ConfigError(fmt::format("initial-rounds is {}; it must be between 1 and {}", options.initial_rounds,
                                  kFullRounds / 2));
  rounds_of_.resize(options.workers);
  if (options.method == Method::it) counts_.resize(options.workers * blocks());
}

void Tally::for_ranges(const auto& body) const {
  const std::size_t tasks = (words() + kTaskWords - 1) / kTaskWords;
  const auto task = [&](std::size_t index) {
    body(index * kTaskWords, std::min(words(), (index + 1) * kTaskWords));
  };
  if (pool_ != nullptr)
    pool_->for_each(tasks, [&](std::size_t index, std::size_t) { task(index); });
  else
    for (std::size_t index = 0; index < tasks; ++index) task(index);
}

void Tally::decide(std::span<const SignVector* const> ballots, SignVector& verdict) {
  assert(ballots.size() == options_.workers);
  std::vector<std::uint32_t> present;
  std::size_t mature = 0;
  for (std::uint32_t m = 0; m < options_.workers; ++m) {
    if (ballots[m] == nullptr) continue;
    assert(ballots[m]->size() == size());
    present.push_back(m);
    if (rounds_of_[m] >= options_.initial_rounds) ++mature;
  }
  ++rounds_;
  if (verdict.size() != size() || present.empty()) verdict.reset(size());
  if (present.empty()) return;

  const bool learns = options_.method == Method::it;
  if (learns && 2 * mature >= present.size()) weighted_ = true;
  const bool weigh = weighted_ && mature > 0;

  const std::int16_t clip = clip_units(options_.clip);
  static_assert(kernels::kBlockCounts == sizeof(CountBlock) / sizeof(std::uint16_t));
  const auto counts_of = [this](std::uint32_t m) {
    return kernels::Counts{counts_.empty() ? nullptr : counts_[m].half_errors.data(),
                           options_.workers * kernels::kBlockCounts};
  };
  std::vector<kernels::Voter> voters;
  std::vector<kernels::Planes> equals;
  std::vector<std::uint32_t> heard_only;  // counted after the vote, in which they had no weight
  for (const std::uint32_t m : present) {
    if (weigh && rounds_of_[m] >= options_.initial_rounds)
      voters.push_back({planes(*ballots[m]), counts_of(m), 2.0F * static_cast<float>(rounds_of_[m])});
    else if (learns)
      heard_only.push_back(m);
    if (!weigh) equals.push_back(planes(*ballots[m]));
  }

  for_ranges([&](std::size_t first, std::size_t last) {
    std::uint64_t* out_present = verdict.present().data();
    std::uint64_t* out_negative = verdict.negative().data();
    if (weigh)
      kernels::weighted_vote(voters, clip, first, last, out_present, out_negative);
    else
      kernels::majority(equals, first, last, out_present, out_negative);
    for (const std::uint32_t m : heard_only)
      kernels::count_half_errors(planes(*ballots[m]), planes(verdict), first, last, counts_of(m));
  });
  for (const std::uint32_t m : present) {
    ++rounds_of_[m];
    halve_if_full(m);
  }
}

void Tally::halve_if_full(std::uint32_t worker) {
  if (rounds_of_[worker] < kFullRounds) return;
  // Rounds are rounded up and counts down, so that a count stays within twice the rounds.
  rounds_of_[worker] -= rounds_of_[worker] / 2;
  if (options_.method == Method::it)
    for_ranges([&](std::size_t first, std::size_t last) {
      for (std::size_t b = first / kBlockWords; b * kBlockWords < last; ++b)
        for (std::uint16_t& count : counts_[b * options_.workers + worker].half_errors) count /= 2;
    });
}

std::vector<std::uint16_t> Tally::half_errors(std::uint32_t worker) const {
  assert(worker < options_.workers);
  std::vector<std::uint16_t> all;
  if (options_.method == Method::mv) return all;
  all.reserve(blocks() * kernels::kBlockCounts);
  for (std::size_t b = 0; b < blocks(); ++b) {
    const auto& block = counts_[b * options_.workers + worker].half_errors;
    all.insert(all.end(), block.begin(), block.end());
  }
  all.resize(size());
  return all;
}

std::int64_t Tally::total_half_errors(std::uint32_t worker) const {
  const auto counts = half_errors(worker);
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

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
  const std::size_t rounds_bytes = rounds_of_.size() * sizeof(std::uint32_t);
  const std::size_t counts_bytes = learnt_counts() * sizeof(std::uint16_t);
  std::vector<std::byte> bytes(sizeof(header) + rounds_bytes + counts_bytes + sizeof(std::uint64_t));
  std::byte* at = bytes.data();
  const auto append = [&at](const void* part, std::size_t length) {
    at = std::copy_n(static_cast<const std::byte*>(part), length, at);
  };
  append(&header, sizeof(header));
  append(rounds_of_.data(), rounds_bytes);
  for (std::uint32_t m = 0; m < options_.workers; ++m) {
    const auto counts = half_errors(m);
    append(counts.data(), counts.size() * sizeof(std::uint16_t));
  }
  const std::uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size() - sizeof(checksum));
  append(&checksum, sizeof(checksum));
  return bytes;
}

void Tally::restore(std::span<const std::byte> bytes) {
  const std::size_t rounds_bytes = rounds_of_.size() * sizeof(std::uint32_t);
  const std::size_t counts_bytes = learnt_counts() * sizeof(std::uint16_t);
  SnapshotHeader header;
  if (bytes.size() < sizeof(header)) throw DataError("a tally's snapshot is cut short");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != SnapshotHeader{}.magic) throw DataError("these bytes are not a tally's snapshot");
  if (header.version != SnapshotHeader{}.version)
    throw DataError(fmt::format("a tally's snapshot of version {}; this program reads version {}",
                                header.version, SnapshotHeader{}.version));
  if (header.method != static_cast<std::uint32_t>(options_.method) || header.workers != options_.workers ||
      header.begin != options_.begin || header.end != options_.end ||
      header.initial_rounds != options_.initial_rounds || header.clip != options_.clip)
    throw DataError(
        "the snapshot is of a tally with other options (method, workers, range, initial rounds or clip)");
  if (bytes.size() != sizeof(header) + rounds_bytes + counts_bytes + sizeof(std::uint64_t))
    throw DataError(fmt::format("a tally's snapshot has {} bytes, which is not its length", bytes.size()));
  std::uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + bytes.size() - sizeof(checksum), sizeof(checksum));
  if (checksum != XXH3_64bits(bytes.data(), bytes.size() - sizeof(checksum)))
    throw DataError("a tally's snapshot is damaged: its checksum is wrong");
  std::vector<std::uint32_t> rounds_of(rounds_of_.size());
  const std::byte* at = bytes.data() + sizeof(header);
  std::copy_n(at, rounds_bytes, reinterpret_cast<std::byte*>(rounds_of.data()));
  at += rounds_bytes;
  // Looked at before anything is changed; read by memcpy, for a snapshot may lie at an odd address.
  for (std::size_t i = 0; i < learnt_counts(); ++i) {
    std::uint16_t half_errors = 0;
    std::memcpy(&half_errors, at + i * sizeof(half_errors), sizeof(half_errors));
    if (half_errors > 2 * rounds_of[i / size()])
      throw DataError("a tally's snapshot is wrong: a worker has more errors than rounds");
  }
  for (const std::uint32_t rounds : rounds_of)
    if (rounds >= kFullRounds) throw DataError("a tally's snapshot is wrong: a worker has too many rounds");
  rounds_ = header.rounds;
  weighted_ = header.weighted != 0;
  rounds_of_ = std::move(rounds_of);
  if (learnt_counts() > 0)
    for (std::uint32_t m = 0; m < options_.workers; ++m)
      for (std::size_t b = 0; b < blocks(); ++b) {
        const std::size_t counts = std::min(kernels::kBlockCounts, size() - b * kernels::kBlockCounts);
        std::memcpy(counts_[b * options_.workers + m].half_errors.data(), at, counts * sizeof(std::uint16_t));
        at += counts * sizeof(std::uint16_t);
      }
}

}  // namespace signvote
