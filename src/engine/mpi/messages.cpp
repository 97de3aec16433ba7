#include "engine/mpi/messages.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <type_traits>
#include <utility>

namespace signvote::mpi {
namespace {

enum class Kind : std::uint32_t {
  ballots = 0x32425653,  // "SVB2"
  verdict = 0x32565653,  // "SVV2"
};

struct Preamble {
  Kind kind{};
  std::uint32_t sender = 0;
  std::uint64_t run_id = 0;
  std::uint64_t round = 0;
};
static_assert(sizeof(Traffic) == 40 && std::has_unique_object_representations_v<Traffic>);
static_assert(sizeof(Preamble) == 24 && std::has_unique_object_representations_v<Preamble>);

constexpr std::size_t kChecksumBytes = sizeof(std::uint64_t);
constexpr std::size_t kAroundBytes = sizeof(Preamble) + kChecksumBytes;
/// The bytes of a body's layout: the codec and, if it is masked, the mask's encoding and two lengths.
constexpr std::size_t kMostLayoutBytes = 1 + 1 + 2 * sizeof(std::uint64_t);
constexpr std::size_t kWordBytes = 1 + sizeof(RankWord::digest);
constexpr std::size_t kLossBytes = sizeof(BatchLoss::samples) + sizeof(BatchLoss::loss);
constexpr std::uint8_t kAbsent = 0;  // instead of a codec
constexpr const char* kWrongLength = "message has another length than its parts together";

template <class T>
void append(std::vector<std::byte>& out, const T& value) {
  out.resize(out.size() + sizeof value);
  std::memcpy(out.data() + out.size() - sizeof value, &value, sizeof value);
}

void begin(const MessageId& id, Kind kind, std::vector<std::byte>& out) {
  out.clear();
  append(out, Preamble{kind, id.sender, id.run_id, id.round});
}

void append_slice(const EncodedSlice& slice, std::vector<std::byte>& out) {
  const BodyLayout& layout = slice.layout;
  append(out, layout.codec);
  if (layout.codec == Codec::masked) {
    append(out, static_cast<std::uint8_t>(layout.mask_encoding));
    append(out, layout.mask_bytes);
    append(out, layout.bytes);
  }
  out.insert(out.end(), slice.bytes.begin(), slice.bytes.end());
}

void seal(std::vector<std::byte>& out) { append(out, std::uint64_t{XXH3_64bits(out.data(), out.size())}); }

/// Takes values off the front of a message. Once one is missing, all that follow are 0.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::span<const std::byte> take_bytes(std::uint64_t count) {
    if (count > rest_.size()) complete_ = false;
    const auto taken = rest_.first(complete_ ? count : 0);
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

  template <class T>
  T take() {
    T value{};
    const auto taken = take_bytes(sizeof value);
    if (complete_) std::memcpy(&value, taken.data(), sizeof value);
    return value;
  }

  bool complete() const { return complete_; }
  bool at_end() const { return complete_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool complete_ = true;
};

bool fail(std::string& problem, std::string text) {
  problem = std::move(text);
  return false;
}

/// Checks all of a message that does not depend on its kind, and takes the preamble and the checksum off.
bool open(std::span<const std::byte>& message, const MessageId& id, Kind kind, std::string& problem) {
  if (message.size() < kAroundBytes)
    return fail(problem, fmt::format("message of {} bytes is too short to be one", message.size()));
  Reader reader(message);
  const auto preamble = reader.take<Preamble>();
  if (preamble.kind != kind)
    return fail(problem, "not the kind of message that was expected; run the same signvote on all ranks");
  if (preamble.sender != id.sender || preamble.run_id != id.run_id || preamble.round != id.round)
    return fail(
        problem,
        fmt::format("message of rank {}, run {:016x} and round {} where rank {}, run {:016x} and "
                    "round {} were expected",
                    preamble.sender, preamble.run_id, preamble.round, id.sender, id.run_id, id.round));
  std::uint64_t checksum = 0;
  std::memcpy(&checksum, message.data() + message.size() - kChecksumBytes, kChecksumBytes);
  message = message.first(message.size() - kChecksumBytes);
  if (checksum != XXH3_64bits(message.data(), message.size()))
    return fail(problem, "message damaged on the way: its checksum does not match");
  message = message.subspan(sizeof(Preamble));
  return true;
}

bool take_signs(Reader& reader, Codec codec, SignWords signs, std::string& problem) {
  BodyLayout layout{codec, MaskEncoding::none, 0, packed_bytes(signs.size)};
  if (codec == Codec::masked) {
    layout.mask_encoding = static_cast<MaskEncoding>(reader.take<std::uint8_t>());
    layout.mask_bytes = reader.take<std::uint64_t>();
    layout.bytes = reader.take<std::uint64_t>();
  }
  if (!is_possible(layout, signs.size))
    return fail(problem, fmt::format("{} coordinates cannot have codec {}, mask encoding {}, {} mask bytes "
                                     "and {} body bytes",
                                     signs.size, static_cast<int>(codec),
                                     static_cast<std::uint32_t>(layout.mask_encoding), layout.mask_bytes,
                                     layout.bytes));
  const auto body = reader.take_bytes(layout.bytes);
  if (!reader.complete()) return fail(problem, "message ends before its signs do");
  return read_body(layout, body, signs, problem);
}

}  // namespace

Shard shard_of(std::uint64_t size, std::uint32_t ranks, std::uint32_t rank) {
  assert(rank < ranks);
  const std::uint64_t words = SignVector::words(size);
  return {std::min(size, words * rank / ranks * SignVector::kBits),
          std::min(size, words * (rank + 1) / ranks * SignVector::kBits)};
}

std::size_t most_ballot_bytes(const Shard& to, std::size_t workers) {
  return kAroundBytes + kWordBytes + workers * (kLossBytes + kMostLayoutBytes + most_body_bytes(to.size()));
}

std::size_t most_verdict_bytes(const Shard& from, std::size_t pooled) {
  return kAroundBytes + kMostLayoutBytes + most_body_bytes(from.size()) + pooled * sizeof(std::int64_t) +
         sizeof(Traffic);
}

void encode_ballots(const MessageId& id, const RankWord& word, std::span<const SentBallot> ballots,
                    std::vector<std::byte>& out) {
  begin(id, Kind::ballots, out);
  append(out, static_cast<std::uint8_t>(word.stop ? 1 : 0));
  append(out, word.digest);
  for (const SentBallot& ballot : ballots) {
    append(out, ballot.loss.samples);
    append(out, ballot.loss.loss);
    if (ballot.slice != nullptr)
      append_slice(*ballot.slice, out);
    else
      append(out, kAbsent);
  }
  seal(out);
}

bool decode_ballots(std::span<const std::byte> bytes, const MessageId& id, const Shard& to, RankWord& word,
                    std::span<ReceivedBallot> ballots, std::string& problem) {
  if (!open(bytes, id, Kind::ballots, problem)) return false;
  Reader reader(bytes);
  const auto asked = reader.take<std::uint8_t>();
  if (asked > 1) return fail(problem, "a flag is neither 0 nor 1");
  word = {asked == 1, reader.take<std::uint64_t>()};
  for (ReceivedBallot& ballot : ballots) {
    ballot.loss.samples = reader.take<std::uint32_t>();
    ballot.loss.loss = reader.take<double>();
    const auto codec = reader.take<std::uint8_t>();
    ballot.present = codec != kAbsent;
    if (!ballot.present) continue;
    if (ballot.signs.size() != to.size()) ballot.signs.reset(to.size());
    if (!take_signs(reader, static_cast<Codec>(codec), ballot.signs, problem)) return false;
  }
  return reader.at_end() || fail(problem, kWrongLength);
}

void encode_verdict(const MessageId& id, const EncodedSlice& slice, std::span<const std::int64_t> pooled,
                    std::uint32_t copies, Traffic& traffic, std::vector<std::byte>& out) {
  begin(id, Kind::verdict, out);
  append_slice(slice, out);
  for (const std::int64_t number : pooled) append(out, number);
  traffic.rank_bytes += copies * (out.size() + sizeof traffic + kChecksumBytes);
  append(out, traffic);
  seal(out);
}

bool decode_verdict(std::span<const std::byte> bytes, const MessageId& id, const Shard& from,
                    SignVector& verdict, std::span<std::int64_t> pooled, Traffic& traffic,
                    std::string& problem) {
  if (!open(bytes, id, Kind::verdict, problem)) return false;
  Reader reader(bytes);
  const auto codec = static_cast<Codec>(reader.take<std::uint8_t>());
  if (!take_signs(reader, codec, SignWords(verdict, from.begin, from.size()), problem)) return false;
  for (std::int64_t& number : pooled) number = reader.take<std::int64_t>();
  traffic = reader.take<Traffic>();
  return reader.at_end() || fail(problem, kWrongLength);
}

}  // namespace signvote::mpi
