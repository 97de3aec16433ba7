// The records of a .log file; docs/journal_format.md is the specification. The header has its own checksum,
// so that its length can be trusted. It also says how much of the log was on the disk before it. That tells
// a record that a crash has torn from one that was damaged later.
#include "journal/record.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "signvote/error.h"

namespace signvote {
namespace {

static_assert(std::endian::native == std::endian::little, "records are copied as they lie in memory");

constexpr std::array<char, 4> kMagic = {'S', 'V', 'J', '2'};  // of a record, also in version 3
constexpr std::array<char, 4> kStartMagic = {'S', 'V', 'J', '3'};

struct StartBytes {
  std::array<char, 4> magic = kStartMagic;
  std::uint32_t zero = 0;
  std::uint64_t seed = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(StartBytes) == kStartBytes && std::has_unique_object_representations_v<StartBytes>);

enum class RecordType : std::uint32_t { member = 1, ballot = 2, verdict = 3 };

struct RecordHeader {
  std::array<char, 4> magic = kMagic;
  RecordType type{};
  std::uint64_t body_bytes = 0;
  std::uint64_t round = 0;   // 0 in a member
  std::uint64_t synced = 0;  // how many bytes of the log were on the disk before this was written
  std::uint64_t body_checksum = 0;
  std::uint64_t header_checksum = 0;
};
static_assert(sizeof(RecordHeader) == 48 && std::has_unique_object_representations_v<RecordHeader>);

struct BallotHead {  // its message follows
  std::uint32_t worker = 0;
  std::uint32_t batch = 0;
  double loss = 0;
};
static_assert(sizeof(BallotHead) == 16);

std::uint64_t checksum_of(const RecordHeader& header, std::uint64_t seed) {
  return XXH3_64bits_withSeed(&header, offsetof(RecordHeader, header_checksum), seed);
}

std::uint64_t checksum_of(const StartBytes& start) {
  return XXH3_64bits(&start, offsetof(StartBytes, checksum));
}

template <class T>
void put(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void put_bytes(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Takes a value from the front of `bytes`; returns false if they are too short.
template <class T>
bool take(std::span<const std::byte>& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return true;
}

bool read_header(std::span<const std::byte> bytes, std::uint64_t seed, RecordHeader& header) {
  return take(bytes, header) && header.magic == kMagic && header.header_checksum == checksum_of(header, seed);
}

// The largest `synced` in the headers that are found in the end of a log.
std::uint64_t synced_according_to(std::span<const std::byte> end, std::uint64_t seed) {
  std::uint64_t synced = 0;
  RecordHeader header;
  const auto magic = std::as_bytes(std::span(kMagic));
  while (true) {
    const auto found = std::search(end.begin(), end.end(), magic.begin(), magic.end());
    if (found == end.end()) return synced;
    end = end.subspan(static_cast<std::size_t>(found - end.begin()));
    if (read_header(end, seed, header)) synced = std::max(synced, header.synced);
    end = end.subspan(1);
  }
}

bool read_member(std::span<const std::byte> body, MemberRecord& member) {
  if (!take(body, member.worker)) return false;
  member.name.assign(reinterpret_cast<const char*>(body.data()), body.size());
  return true;
}

bool read_ballot(std::span<const std::byte> body, CastBallot& ballot) {
  BallotHead head;
  if (!take(body, head)) return false;
  ballot = {head.worker, head.batch, head.loss, {body.begin(), body.end()}};
  return true;
}

bool read_verdict(std::span<const std::byte> body, VerdictRecord& record) {
  std::uint64_t count = 0;
  if (!take(body, count) || count > body.size() / sizeof(std::uint32_t)) return false;
  record.counted.resize(count);
  for (std::uint32_t& worker : record.counted) take(body, worker);
  record.verdict.assign(body.begin(), body.end());
  return std::ranges::adjacent_find(record.counted, std::ranges::greater_equal{}) == record.counted.end();
}

/// Appends a record with the body that `write_body` appends.
void append_record(RecordType type, std::uint64_t round, std::uint64_t synced, std::uint64_t seed,
                   std::vector<std::byte>& out, const auto& write_body) {
  const std::size_t start = out.size();
  RecordHeader header;
  header.type = type;
  header.round = round;
  header.synced = synced;
  put(out, header);
  write_body();
  const auto body = std::span<const std::byte>(out).subspan(start + sizeof header);
  header.body_bytes = body.size();
  header.body_checksum = XXH3_64bits_withSeed(body.data(), body.size(), seed);
  header.header_checksum = checksum_of(header, seed);
  std::memcpy(out.data() + start, &header, sizeof header);
}

DecodedRecord problem(RecordStatus status, std::string text) {
  return {.status = status, .record = {}, .synced = 0, .length = 0, .problem = std::move(text)};
}

}  // namespace

LogStart encode_start(std::vector<std::byte>& out) {
  StartBytes start;
  if (::getrandom(&start.seed, sizeof start.seed, 0) != sizeof start.seed)  // never so few bytes, says Linux
    throw DataError(fmt::format("cannot draw a random number: {}", std::strerror(errno)));
  start.checksum = checksum_of(start);
  put(out, start);
  return {start.seed, sizeof start};
}

LogStart read_start(const InputFile& log) {
  std::vector<std::byte> bytes(std::min<std::uint64_t>(log.bytes(), kStartBytes));
  log.read(0, bytes);
  if (bytes.empty()) return {};  // of version 2, without a record
  std::array<char, 4> magic{};
  std::uint32_t type = 0;
  std::span<const std::byte> rest = bytes;
  const bool has_magic = take(rest, magic);
  // A record's type is never 0, but those bytes of a start are: so no single damaged byte makes one look
  // like the other.
  if (has_magic && magic == kMagic && take(rest, type) && type != 0) return {};
  StartBytes start;
  rest = bytes;
  if (take(rest, start) && start.magic == kStartMagic && start.checksum == checksum_of(start))
    return {.seed = start.seed, .bytes = sizeof start};
  const bool other = has_magic && std::equal(magic.begin(), magic.begin() + 3, kMagic.begin()) &&
                     magic != kMagic && magic != kStartMagic;
  throw DataError(fmt::format("'{}' {}", log.path().string(),
                              other ? "was written by another version of signvote; go on with that one"
                                    : "is damaged at byte 0: no log begins like this; put it back from a "
                                      "backup"));
}

void encode_member(const MemberRecord& member, std::uint64_t synced, std::uint64_t seed,
                   std::vector<std::byte>& out) {
  append_record(RecordType::member, 0, synced, seed, out, [&] {
    put(out, member.worker);
    put_bytes(out, std::as_bytes(std::span(member.name)));
  });
}

void encode_ballot(std::uint64_t round, const CastBallot& ballot, std::uint64_t synced, std::uint64_t seed,
                   std::vector<std::byte>& out) {
  append_record(RecordType::ballot, round, synced, seed, out, [&] {
    put(out, BallotHead{.worker = ballot.worker, .batch = ballot.batch, .loss = ballot.loss});
    put_bytes(out, ballot.message);
  });
}

std::size_t encode_verdict(std::uint64_t round, std::span<const std::uint32_t> counted,
                           std::span<const std::byte> verdict, std::uint64_t synced, std::uint64_t seed,
                           std::vector<std::byte>& out) {
  append_record(RecordType::verdict, round, synced, seed, out, [&] {
    put(out, static_cast<std::uint64_t>(counted.size()));
    put_bytes(out, std::as_bytes(counted));
    put_bytes(out, verdict);
  });
  return out.size() - verdict.size();
}

DecodedRecord decode_record(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t seed) {
  if (bytes.empty()) return {};
  const auto broken = [&](std::string text, std::uint64_t length) {
    const bool was_synced = synced_according_to(bytes.subspan(length), seed) > offset;
    return problem(was_synced ? RecordStatus::corrupt : RecordStatus::torn, std::move(text));
  };
  RecordHeader header;
  if (!read_header(bytes, seed, header)) return broken("a record's header is broken", 1);
  auto body = bytes.subspan(sizeof header);
  if (header.body_bytes > body.size())
    return problem(RecordStatus::torn,
                   fmt::format("a record of {} bytes has only {} of them", header.body_bytes, body.size()));
  body = body.first(header.body_bytes);
  if (header.body_checksum != XXH3_64bits_withSeed(body.data(), body.size(), seed))
    return broken("a record's checksum is wrong", sizeof header + body.size());

  DecodedRecord decoded{.status = RecordStatus::ok,
                        .record = {},
                        .synced = header.synced,
                        .length = sizeof header + body.size(),
                        .problem = {}};
  bool whole = false;
  if (header.type == RecordType::member) {
    whole = header.round == 0 && read_member(body, decoded.record.emplace<MemberRecord>());
  } else if (header.type == RecordType::ballot) {
    auto& ballot = decoded.record.emplace<BallotRecord>();
    ballot.round = header.round;
    whole = read_ballot(body, ballot.ballot);
  } else if (header.type == RecordType::verdict) {
    auto& verdict = decoded.record.emplace<VerdictRecord>();
    verdict.round = header.round;
    whole = read_verdict(body, verdict);
  } else {
    return problem(RecordStatus::corrupt,
                   fmt::format("a record of unknown type {}", static_cast<std::uint32_t>(header.type)));
  }
  if (!whole) return problem(RecordStatus::corrupt, "a record's parts do not fill it");
  return decoded;
}

// Reads on into bytes_ up to byte `end` of the log.
void LogReader::read_to(std::uint64_t end) {
  const std::size_t have = bytes_.size();
  bytes_.resize(end - offset_);
  file_.read(offset_ + have, std::span(bytes_).subspan(have));
}

DecodedRecord LogReader::next() {
  bytes_.clear();
  read_to(std::min<std::uint64_t>(end_, offset_ + sizeof(RecordHeader)));
  RecordHeader header;
  if (read_header(bytes_, seed_, header) && header.body_bytes <= end_ - offset_ - sizeof header)
    read_to(offset_ + sizeof header + header.body_bytes);
  DecodedRecord decoded = decode_record(bytes_, offset_, seed_);
  if (decoded.status != RecordStatus::ok && offset_ + bytes_.size() < end_) {
    read_to(end_);
    decoded = decode_record(bytes_, offset_, seed_);
  }
  if (decoded.status == RecordStatus::ok) offset_ += decoded.length;
  return decoded;
}

}  // namespace signvote
