#include "engine/mpi/messages.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "signvote/wire.h"

namespace signvote::mpi {
namespace {

constexpr std::size_t kChecksumBytes = sizeof(std::uint64_t);

std::size_t workers_trailer_bytes(std::size_t workers) {
  return 1 + workers * (1 + sizeof(double)) + kChecksumBytes;
}

std::size_t shard_trailer_bytes(std::size_t totals) {
  return 4 * sizeof(std::uint64_t) + totals * sizeof(std::int64_t) + kChecksumBytes;
}

template <class T>
void append(std::vector<std::byte>& out, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

/// Takes values off the front. REQUIRES: that many bytes are left.
template <class T>
void take(std::span<const std::byte>& bytes, std::span<T> values) {
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size_bytes());
  bytes = bytes.subspan(values.size_bytes());
}

/// Appends the checksum of what follows `begin`.
void seal(std::vector<std::byte>& out, std::size_t begin) {
  const std::uint64_t checksum = XXH3_64bits(out.data() + begin, out.size() - begin);
  append(out, std::span(&checksum, 1));
}

/// Cuts a message into what wire.h reads and a trailer of so many bytes, whose checksum it looks at.
bool split(std::span<const std::byte>& message, std::size_t trailer_bytes,
           std::span<const std::byte>& trailer, std::string& problem) {
  if (message.size() < kHeaderBytes + trailer_bytes) {
    problem = fmt::format("message of {} bytes is shorter than its header and trailer", message.size());
    return false;
  }
  trailer = message.last(trailer_bytes);
  message = message.first(message.size() - trailer_bytes);
  std::uint64_t checksum = 0;
  std::memcpy(&checksum, trailer.data() + trailer_bytes - kChecksumBytes, kChecksumBytes);
  if (checksum == XXH3_64bits(trailer.data(), trailer_bytes - kChecksumBytes)) return true;
  problem = "the checksum of a message's trailer is wrong";
  return false;
}

/// So many ballots on a shard, side by side, each beginning a word: what the last one's last word has left
/// over is not part of it, so that one dense ballot is dense as ever.
std::uint64_t joined_size(const Shard& shard, std::size_t ballots) {
  return ballots == 0 ? 0 : (ballots - 1) * shard.words * SignVector::kBits + shard.size();
}

void copy_words(SignView from, std::size_t from_word, std::size_t words, SignVector& to,
                std::size_t to_word) {
  std::ranges::copy(from.present().subspan(from_word, words), to.present().subspan(to_word).begin());
  std::ranges::copy(from.negative().subspan(from_word, words), to.negative().subspan(to_word).begin());
}

bool is_canonical(const SignVector& signs) {
  return signs.size() % SignVector::kBits == 0 ||
         signs.present().back() >> (signs.size() % SignVector::kBits) == 0;
}

/// For those whose words are all written next.
void resize(SignVector& signs, std::size_t size) {
  if (signs.size() != size) signs.reset(size);
}

std::size_t most_wire_bytes(std::uint64_t coordinates) { return kHeaderBytes + 2 * ((coordinates + 7) / 8); }

}  // namespace

Shard shard_of(std::uint64_t size, std::uint32_t ranks, std::uint32_t rank) {
  assert(rank < ranks);
  const std::uint64_t words = SignVector::words(size);
  Shard shard;
  shard.first_word = words * rank / ranks;
  shard.words = words * (rank + 1) / ranks - shard.first_word;
  shard.begin = std::min(size, shard.first_word * SignVector::kBits);
  shard.end = std::min(size, (shard.first_word + shard.words) * SignVector::kBits);
  return shard;
}

std::size_t most_ballot_bytes(const Shard& to, std::size_t workers) {
  return most_wire_bytes(joined_size(to, workers)) + workers_trailer_bytes(workers);
}

std::size_t most_verdict_bytes(const Shard& from, std::size_t totals) {
  return most_wire_bytes(from.size()) + shard_trailer_bytes(totals);
}

void encode_ballots(const RoundId& id, std::uint32_t first_worker, const Shard& to,
                    std::span<const SignVector* const> ballots, const WorkersTrailer& trailer,
                    SignVector& joined, std::vector<std::byte>& out) {
  resize(joined, joined_size(to, ballots.size()));
  for (std::size_t i = 0; i < ballots.size(); ++i)
    copy_words(*ballots[i], to.first_word, to.words, joined, i * to.words);
  encode({MessageKind::ballot, id.run_id, id.round, first_worker, joined.size()}, joined, out);
  const std::size_t begin = out.size();
  const auto stop = static_cast<std::uint8_t>(trailer.stop ? 1 : 0);
  append(out, std::span(&stop, 1));
  append(out, std::span(trailer.present));
  append(out, std::span(trailer.losses));
  seal(out, begin);
}

bool decode_ballots(std::span<const std::byte> bytes, const RoundId& id, std::uint32_t first_worker,
                    const Shard& to, std::span<SignVector* const> ballots, WorkersTrailer& trailer,
                    SignVector& joined, std::string& problem) {
  std::span<const std::byte> rest;
  if (!split(bytes, workers_trailer_bytes(ballots.size()), rest, problem)) return false;
  std::uint8_t stop = 0;
  trailer.present.resize(ballots.size());
  trailer.losses.resize(ballots.size());
  take(rest, std::span(&stop, 1));
  take(rest, std::span(trailer.present));
  take(rest, std::span(trailer.losses));
  if (stop > 1 || std::ranges::any_of(trailer.present, [](std::uint8_t flag) { return flag > 1; })) {
    problem = "a flag in a message's trailer is neither 0 nor 1";
    return false;
  }
  trailer.stop = stop != 0;
  const auto present = static_cast<std::size_t>(std::ranges::count(trailer.present, std::uint8_t{1}));
  const MessageHeader expected{MessageKind::ballot, id.run_id, id.round, first_worker,
                               joined_size(to, present)};
  if (!decode(bytes, expected, joined, problem)) return false;
  std::size_t word = 0;
  for (std::size_t i = 0; i < ballots.size(); ++i) {
    if (trailer.present[i] == 0) continue;
    resize(*ballots[i], to.size());
    copy_words(joined, word, to.words, *ballots[i], 0);
    word += to.words;
    if (is_canonical(*ballots[i])) continue;
    problem = "a ballot has signs past its last coordinate";
    return false;
  }
  return true;
}

void encode_verdict(const RoundId& id, SignView slice, ShardTrailer& trailer, std::vector<std::byte>& out) {
  encode({MessageKind::verdict, id.run_id, id.round, 0, slice.size()}, slice, out);
  const std::size_t begin = out.size();
  trailer.traffic.verdict_bytes += begin + shard_trailer_bytes(trailer.totals.size());
  const Traffic& sent = trailer.traffic;
  const std::uint64_t traffic[] = {sent.ballots, sent.ballot_bytes, sent.verdicts, sent.verdict_bytes};
  append(out, std::span<const std::uint64_t>(traffic));
  append(out, std::span<const std::int64_t>(trailer.totals));
  seal(out, begin);
}

bool decode_verdict(std::span<const std::byte> bytes, const RoundId& id, const Shard& from, SignVector& slice,
                    ShardTrailer& trailer, std::string& problem) {
  std::span<const std::byte> rest;
  if (!split(bytes, shard_trailer_bytes(trailer.totals.size()), rest, problem)) return false;
  std::uint64_t traffic[4];
  take(rest, std::span<std::uint64_t>(traffic));
  take(rest, std::span(trailer.totals));
  trailer.traffic = {traffic[0], traffic[1], traffic[2], traffic[3]};
  return decode(bytes, {MessageKind::verdict, id.run_id, id.round, 0, from.size()}, slice, problem);
}

SignView slice(SignView whole, const Shard& shard) { return whole.slice(shard.begin, shard.size()); }

void place_slice(SignView slice, const Shard& shard, SignVector& whole) {
  copy_words(slice, 0, shard.words, whole, shard.first_word);
}

}  // namespace signvote::mpi
