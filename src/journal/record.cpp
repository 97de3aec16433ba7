// The records of a .log file; docs/journal_format.md is the specification. The header has a checksum
// of its own, so its length can be believed: a record that is cut short is told from one that is
// damaged, and the decoder never looks for a body where there is none.
#include "journal/record.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

namespace signvote {
namespace {

static_assert(std::endian::native == std::endian::little, "records are copied as they lie in memory");

constexpr std::array<char, 4> kMagic = {'S', 'V', 'J', '1'};

enum class RecordType : std::uint32_t { member = 1, round = 2 };

struct RecordHeader {
  std::array<char, 4> magic = kMagic;
  RecordType type{};
  std::uint64_t body_bytes = 0;
  std::uint64_t round = 0;  // 0 in a member
  std::uint64_t body_checksum = 0;
  std::uint64_t header_checksum = 0;
};
static_assert(sizeof(RecordHeader) == 40 && std::has_unique_object_representations_v<RecordHeader>);

struct RoundHead {  // then a row a ballot, the verdict, the ballots' messages
  std::uint64_t ballots = 0;
  std::uint64_t verdict_bytes = 0;
};

struct BallotRow {
  std::uint32_t worker = 0;
  std::uint32_t batch = 0;
  double loss = 0;
  std::uint64_t message_bytes = 0;
};
static_assert(sizeof(RoundHead) == 16 && sizeof(BallotRow) == 24);

std::uint64_t checksum_of(const RecordHeader& header) {
  return XXH3_64bits(&header, offsetof(RecordHeader, header_checksum));
}

template <class T>
void put(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void put_bytes(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Takes from the front of `bytes`; false if they are too short.
template <class T>
bool take(std::span<const std::byte>& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return true;
}

bool take_bytes(std::span<const std::byte>& bytes, std::uint64_t count, std::vector<std::byte>& value) {
  if (bytes.size() < count) return false;
  value.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
  bytes = bytes.subspan(count);
  return true;
}

bool read_header(std::span<const std::byte> bytes, RecordHeader& header) {
  return take(bytes, header) && header.magic == kMagic && header.header_checksum == checksum_of(header);
}

bool a_header_follows(std::span<const std::byte> bytes) {
  RecordHeader header;
  const auto magic = std::as_bytes(std::span(kMagic));
  while (true) {
    const auto found = std::search(bytes.begin(), bytes.end(), magic.begin(), magic.end());
    if (found == bytes.end()) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(found - bytes.begin()));
    if (read_header(bytes, header)) return true;
    bytes = bytes.subspan(1);
  }
}

bool read_member(std::span<const std::byte> body, MemberRecord& member) {
  if (!take(body, member.worker)) return false;
  member.name.assign(reinterpret_cast<const char*>(body.data()), body.size());
  return true;
}

bool read_round(std::span<const std::byte> body, RoundRecord& record) {
  RoundHead head;
  if (!take(body, head) || head.ballots > body.size() / sizeof(BallotRow)) return false;
  auto rows = body.first(head.ballots * sizeof(BallotRow));
  body = body.subspan(rows.size());
  if (!take_bytes(body, head.verdict_bytes, record.verdict)) return false;
  record.ballots.resize(head.ballots);
  for (CastBallot& ballot : record.ballots) {
    BallotRow row;
    take(rows, row);
    ballot = {.worker = row.worker, .batch = row.batch, .loss = row.loss, .message = {}};
    if (!take_bytes(body, row.message_bytes, ballot.message)) return false;
  }
  return body.empty();
}

DecodedRecord problem(RecordStatus status, std::string text) {
  return {.status = status, .record = {}, .length = 0, .problem = std::move(text)};
}

}  // namespace

std::size_t verdict_offset(const RoundRecord& record) {
  return sizeof(RecordHeader) + sizeof(RoundHead) + record.ballots.size() * sizeof(BallotRow);
}

void encode_record(const JournalRecord& record, std::vector<std::byte>& out) {
  const std::size_t start = out.size();
  RecordHeader header;
  put(out, header);
  if (const auto* member = std::get_if<MemberRecord>(&record)) {
    header.type = RecordType::member;
    put(out, member->worker);
    put_bytes(out, std::as_bytes(std::span(member->name)));
  } else {
    const auto& round = std::get<RoundRecord>(record);
    header.type = RecordType::round;
    header.round = round.round;
    put(out, RoundHead{.ballots = round.ballots.size(), .verdict_bytes = round.verdict.size()});
    for (const CastBallot& ballot : round.ballots)
      put(out, BallotRow{.worker = ballot.worker,
                         .batch = ballot.batch,
                         .loss = ballot.loss,
                         .message_bytes = ballot.message.size()});
    put_bytes(out, round.verdict);
    for (const CastBallot& ballot : round.ballots) put_bytes(out, ballot.message);
  }
  const auto body = std::span<const std::byte>(out).subspan(start + sizeof header);
  header.body_bytes = body.size();
  header.body_checksum = XXH3_64bits(body.data(), body.size());
  header.header_checksum = checksum_of(header);
  std::memcpy(out.data() + start, &header, sizeof header);
}

DecodedRecord decode_record(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  RecordHeader header;
  if (!read_header(bytes, header)) {
    if (a_header_follows(bytes.subspan(1)))
      return problem(RecordStatus::corrupt, "a record's header is damaged, and records follow it");
    return problem(RecordStatus::torn, fmt::format("no record in the last {} bytes", bytes.size()));
  }
  auto body = bytes.subspan(sizeof header);
  if (header.body_bytes > body.size())
    return problem(RecordStatus::torn,
                   fmt::format("a record of {} bytes has only {} of them", header.body_bytes, body.size()));
  const bool more = header.body_bytes < body.size();
  body = body.first(header.body_bytes);
  if (header.body_checksum != XXH3_64bits(body.data(), body.size()))
    return problem(more ? RecordStatus::corrupt : RecordStatus::torn, "a record's checksum is wrong");

  DecodedRecord decoded{
      .status = RecordStatus::ok, .record = {}, .length = sizeof header + body.size(), .problem = {}};
  bool whole = false;
  if (header.type == RecordType::member) {
    whole = header.round == 0 && read_member(body, decoded.record.emplace<MemberRecord>());
  } else if (header.type == RecordType::round) {
    auto& round = decoded.record.emplace<RoundRecord>();
    round.round = header.round;
    whole = read_round(body, round);
  } else {
    return problem(RecordStatus::corrupt,
                   fmt::format("a record of unknown type {}", static_cast<std::uint32_t>(header.type)));
  }
  if (!whole) return problem(RecordStatus::corrupt, "a record's parts do not fill it");
  return decoded;
}

DecodedRecord LogReader::next() {
  const std::uint64_t left = end_ - offset_;
  bytes_.resize(std::min<std::uint64_t>(left, sizeof(RecordHeader)));
  file_.read(offset_, bytes_);
  RecordHeader header;
  // One byte more than the record, if there is one, tells the decoder that something follows.
  std::uint64_t wanted = left;
  if (read_header(bytes_, header) && header.body_bytes < left - sizeof header)
    wanted = sizeof header + header.body_bytes + 1;
  const std::size_t have = bytes_.size();
  bytes_.resize(wanted);
  file_.read(offset_ + have, std::span(bytes_).subspan(have));
  DecodedRecord decoded = decode_record(bytes_);
  if (decoded.status == RecordStatus::ok) offset_ += decoded.length;
  return decoded;
}

}  // namespace signvote
