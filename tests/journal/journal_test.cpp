// The journal gives back what went in, whatever was done in between; and damage anywhere is told, with
// its place, and never read as something else. What crashes and full disks leave is crash_test's.
#include "journal/journal.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/files.h"
#include "journal/journal_model.h"
#include "journal/record.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

Bytes bytes_of(std::string_view text) {
  const auto span = std::as_bytes(std::span(text));
  return {span.begin(), span.end()};
}

// Without a seed, as in a log of version 2.
Bytes encoded(const LogRecord& record, std::uint64_t synced = 0, std::uint64_t seed = 0) {
  Bytes bytes;
  if (const auto* member = std::get_if<MemberRecord>(&record)) encode_member(*member, synced, seed, bytes);
  if (const auto* ballot = std::get_if<BallotRecord>(&record))
    encode_ballot(ballot->round, ballot->ballot, synced, seed, bytes);
  if (const auto* verdict = std::get_if<VerdictRecord>(&record))
    encode_verdict(verdict->round, verdict->counted, verdict->verdict, synced, seed, bytes);
  return bytes;
}

bool same_record(const LogRecord& a, const LogRecord& b) {
  if (a.index() != b.index()) return false;
  if (const auto* member = std::get_if<MemberRecord>(&a)) return same(*member, std::get<MemberRecord>(b));
  if (const auto* ballot = std::get_if<BallotRecord>(&a)) {
    const auto& other = std::get<BallotRecord>(b);
    return ballot->round == other.round && same(ballot->ballot, other.ballot);
  }
  const auto &x = std::get<VerdictRecord>(a), &y = std::get<VerdictRecord>(b);
  return x.round == y.round && x.counted == y.counted && x.verdict == y.verdict;
}

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Journal opened(const fs::path& folder, Journal::Mode mode = Journal::Mode::append) {
  return Journal(folder, mode, [](const std::string&) {});
}

void write_plainly(const fs::path& path, std::span<const std::byte> content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
}

LogRecord any_record() {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  if (random() % 3 == 0) return JournalModel::any_member(random);
  if (random() % 2 == 0) return BallotRecord{random(), JournalModel::any_ballot(random)};
  const RoundRecord round = JournalModel(first_snapshot(random() % 200, random())).any_round(random);
  VerdictRecord verdict{round.round, {}, round.verdict};
  for (const CastBallot& ballot : round.ballots) verdict.counted.push_back(ballot.worker);
  return verdict;
}

TEST(Record, round_trip_is_exact) {
  EXPECT_TRUE(
      rc::check("decode undoes encode", [](std::uint64_t synced, std::uint64_t offset, std::uint64_t seed) {
        const LogRecord record = any_record();
        const Bytes alone = encoded(record, synced, seed);
        RC_ASSERT(decode_record(alone, offset, seed + 1).status == RecordStatus::torn);
        for (const Bytes& bytes : {alone, joined({alone, encoded(any_record())})}) {
          const DecodedRecord decoded = decode_record(bytes, offset, seed);
          RC_ASSERT(decoded.status == RecordStatus::ok);
          RC_ASSERT(decoded.length == alone.size());
          RC_ASSERT(decoded.synced == synced);
          RC_ASSERT(same_record(decoded.record, record));
        }
      }));
  EXPECT_EQ(decode_record({}, 0, 0).status, RecordStatus::end);
}

// docs/journal_format.md pinned: tests/journal/corpus is also what the fuzzer starts from.
fs::path corpus(const std::string& name) { return fs::path(SIGNVOTE_TEST_DIR) / "journal/corpus" / name; }

// The records of a log up to the first that is not whole, and what becomes of each.
struct Read {
  std::vector<DecodedRecord> records;
  std::vector<RecordStatus> statuses;
};
Read read_log(const fs::path& path) {
  const LogStart start = read_start(InputFile(path));
  const Bytes bytes = read_file(path);
  Read read;
  std::size_t at = start.bytes;
  do {
    read.records.push_back(decode_record(std::span(bytes).subspan(at), at, start.seed));
    at += read.records.back().length;
    read.statuses.push_back(read.records.back().status);
  } while (read.statuses.back() == RecordStatus::ok);
  read.records.pop_back();
  return read;
}

TEST(Record, the_format_is_pinned) {
  EXPECT_EQ(read_file(corpus("member")), encoded(MemberRecord{3, "berlin"}));
  const BallotRecord ballot{0x0102030405060708, {9, 64, -2.25, bytes_of("ballot")}};
  EXPECT_EQ(read_file(corpus("ballot")), encoded(ballot, 0x1112131415161718));
  EXPECT_EQ(read_file(corpus("verdict")), encoded(VerdictRecord{5, {1, 9}, bytes_of("verdict")}, 58));
  using enum RecordStatus;
  for (const std::string version : {"", "_v3"}) {
    EXPECT_EQ(read_log(corpus("log" + version)).statuses, (std::vector{ok, ok, ok, ok, ok, end}));
    EXPECT_EQ(read_log(corpus("torn" + version)).statuses, (std::vector{ok, ok, ok, ok, torn}));
    // Zeros, though whole records follow.
    EXPECT_EQ(read_log(corpus("lost" + version)).statuses, (std::vector{ok, torn}));
    EXPECT_EQ(read_log(corpus("corrupt" + version)).statuses, (std::vector{ok, ok, ok, corrupt}));
  }
  // The same log, with a start and a seed.
  Bytes log = bytes_of(std::string_view("SVJ3\0\0\0\0", 8));
  const std::uint64_t seed = 0x1122334455667788;
  const auto append = [&log](std::uint64_t value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    log.insert(log.end(), bytes.begin(), bytes.end());
  };
  append(seed);
  append(XXH3_64bits(log.data(), log.size()));
  for (const DecodedRecord& decoded : read_log(corpus("log")).records)
    log = joined({log, encoded(decoded.record, decoded.synced + kStartBytes, seed)});
  EXPECT_EQ(read_file(corpus("log_v3")), log);
}

TEST(Record, what_is_cut_is_torn) {
  EXPECT_TRUE(rc::check("at every byte", [](std::uint64_t synced, std::uint64_t offset) {
    const Bytes bytes = encoded(any_record(), synced);
    for (std::size_t length = 1; length < bytes.size(); ++length) {
      const DecodedRecord decoded = decode_record(std::span(bytes).first(length), offset, 0);
      RC_ASSERT(decoded.status == RecordStatus::torn);
      RC_ASSERT(!decoded.problem.empty());
    }
  }));
}

TEST(Record, what_is_damaged_is_corrupt_if_a_record_after_it_knows_that_it_was_synced) {
  EXPECT_TRUE(rc::check("every byte", [] {
    const auto offset = *rc::gen::inRange<std::uint64_t>(0, 1000);
    const Bytes first = encoded(any_record());
    const Bytes ignorant = encoded(any_record(), *rc::gen::inRange<std::uint64_t>(0, offset + 1));
    const Bytes knowing = encoded(any_record(), offset + *rc::gen::inRange<std::uint64_t>(1, 1000));
    for (std::size_t at = 0; at < first.size(); ++at) {
      Bytes damaged = first;
      damaged[at] ^= static_cast<std::byte>(1U << *rc::gen::inRange(0, 8));
      RC_ASSERT(decode_record(damaged, offset, 0).status == RecordStatus::torn);
      RC_ASSERT(decode_record(joined({damaged, ignorant, ignorant}), offset, 0).status == RecordStatus::torn);
      for (const Bytes& log : {joined({damaged, knowing}), joined({damaged, ignorant, knowing}),
                               joined({damaged, knowing, ignorant})})
        RC_ASSERT(decode_record(log, offset, 0).status == RecordStatus::corrupt);
    }
  }));
}

// docs/journal_format.md, by its offsets.
void seal(Bytes& record) {
  const auto put = [&record](std::size_t at, std::uint64_t value) {
    std::memcpy(record.data() + at, &value, sizeof value);
  };
  put(8, record.size() - 48);
  put(32, XXH3_64bits(record.data() + 48, record.size() - 48));
  put(40, XXH3_64bits(record.data(), 40));
}

TEST(Record, what_no_writer_writes_is_corrupt_though_its_checksums_are_right) {
  const Bytes member = encoded(MemberRecord{1, "name"});
  const Bytes ballot = encoded(BallotRecord{7, {1, 2, 3, Bytes(5)}});
  const Bytes verdict = encoded(VerdictRecord{7, {1, 5}, Bytes(4)});
  const auto expect_corrupt = [](Bytes record, const std::string& why) {
    seal(record);
    const DecodedRecord decoded = decode_record(record, 0, 0);
    EXPECT_EQ(decoded.status, RecordStatus::corrupt) << why;
    EXPECT_TRUE(names(decoded.problem, why)) << decoded.problem;
  };
  const auto changed = [](Bytes record, std::size_t at, std::initializer_list<int> values) {
    for (const int value : values) record[at++] = static_cast<std::byte>(value);
    return record;
  };
  for (const Bytes& record : {member, ballot, verdict}) {
    Bytes unchanged = record;
    seal(unchanged);
    EXPECT_EQ(unchanged, record);
    for (const int type : {0, 4, 255}) expect_corrupt(changed(record, 4, {type}), "unknown type");
  }
  expect_corrupt(Bytes(member.begin(), member.begin() + 51), "do not fill it");
  expect_corrupt(changed(member, 16, {1}), "do not fill it");
  expect_corrupt(Bytes(ballot.begin(), ballot.begin() + 63), "do not fill it");
  expect_corrupt(Bytes(verdict.begin(), verdict.begin() + 55), "do not fill it");
  expect_corrupt(Bytes(verdict.begin(), verdict.begin() + 63), "do not fill it");
  expect_corrupt(changed(verdict, 48, {4}), "do not fill it");
  expect_corrupt(changed(verdict, 48, {255, 255, 255, 255, 255, 255, 255, 255}), "do not fill it");
  expect_corrupt(changed(verdict, 55, {0x40}), "do not fill it");  // times four it would wrap around
  expect_corrupt(changed(verdict, 60, {1}), "do not fill it");     // a worker twice
  expect_corrupt(changed(verdict, 60, {0}), "do not fill it");     // not ascending
}

TEST(Record, a_file_that_grew_but_was_not_filled_is_torn) {
  EXPECT_TRUE(rc::check("zeros from any byte on", [] {
    Bytes bytes = encoded(any_record());
    const auto from = *rc::gen::inRange<std::size_t>(0, bytes.size());
    if (std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end(),
                    [](std::byte byte) { return byte == std::byte{0}; }))
      return;
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end(), std::byte{0});
    RC_ASSERT(decode_record(bytes, 0, 0).status == RecordStatus::torn);
  }));
}

TEST(Journal, scripts_end_as_in_the_model) {
  EXPECT_TRUE(rc::check("appends, snapshots and reopening", [](std::uint64_t seed) {
    const TemporaryFolder folder;
    const auto size = *rc::gen::element<std::size_t>(0, 1, 5, 64, 70);
    const auto start = *rc::gen::element<std::uint64_t>(0, 0, 3);
    JournalPair pair(folder / "journal", first_snapshot(size, start), seed);
    RC_ASSERT(pair.difference().empty());
    for (const int action : *rc::gen::container<std::vector<int>>(rc::gen::inRange(-4, 12))) {
      if (action < 0) pair.ballot();
      if (action == 0) pair.member();
      if (action >= 1 && action <= 6) pair.round();
      if (action == 7 || action == 8) pair.snapshot(*rc::gen::element<std::uint64_t>(0, 1, 3, 6, kAll));
      if (action >= 9) pair.open(Journal::Mode::append);
      if (action == 11) {
        const Journal beside = opened(folder / "journal", Journal::Mode::read_only);
        RC_ASSERT(pair.model.difference(beside) == "");
      }
      RC_ASSERT(pair.difference() == "");
    }
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder / "journal"))
      found.insert(entry.path().filename());
    RC_ASSERT(found == pair.model.names());
    RC_ASSERT(pair.reports.empty());
  }));
}

TEST(Journal, ballots_that_no_verdict_counts_are_cut_off) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(4), 1);
  pair.round();
  const fs::path log = folder / "journal/rounds-0.log";
  const auto size = fs::file_size(log);
  for (const bool with_member : {false, true}) {
    pair.ballots(3);
    EXPECT_GT(fs::file_size(log), size);
    if (with_member) pair.member();  // is durable, and the ballots before it stay where they are
    const auto kept = with_member ? fs::file_size(log) : size;
    pair.ballot();
    EXPECT_EQ(pair.difference(), "");
    EXPECT_EQ(pair.model.difference(opened(folder / "journal", Journal::Mode::read_only)), "");
    EXPECT_GT(fs::file_size(log), kept);
    pair.open(Journal::Mode::append);
    EXPECT_EQ(fs::file_size(log), kept);
    EXPECT_EQ(pair.difference(), "");
  }
  EXPECT_TRUE(pair.reports.empty());
}

TEST(Journal, a_verdict_counts_the_last_ballot_of_those_it_names_and_no_other) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(4), 2);
  const auto ballot = [](std::uint32_t worker, const char* text) {
    return CastBallot{worker, 1, 2, bytes_of(text)};
  };
  const auto close = [&](const std::vector<CastBallot>& counted) {
    std::vector<std::uint32_t> workers;
    for (const CastBallot& one : counted) workers.push_back(one.worker);
    const RoundRecord round{pair.model.rounds(), counted, pair.model.any_verdict(pair.random)};
    pair.journal->append(round.round, workers, round.verdict);
    pair.model.append(round);
    EXPECT_EQ(pair.difference(), "");
    EXPECT_EQ(pair.model.difference(opened(folder / "journal", Journal::Mode::read_only)), "");
  };
  // The ballots before a member stay in the log when the journal is opened again, and do not count.
  for (const std::uint32_t worker : {1U, 2U, 3U}) pair.journal->append(0, ballot(worker, "before"));
  pair.member();
  pair.open(Journal::Mode::append);
  pair.journal->append(0, ballot(5, "not in time"));
  pair.journal->append(0, ballot(3, "after"));
  pair.journal->append(0, ballot(1, "first"));
  pair.journal->append(0, ballot(1, "again"));
  close({ballot(1, "again"), ballot(3, "after")});
  // Nor do those that an earlier round did not count.
  pair.journal->append(1, ballot(2, "next round"));
  close({ballot(2, "next round")});
  close({});
}

TEST(Journal, a_snapshot_keeps_the_ballots_of_the_open_round) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(4), 3);
  const CastBallot early{7, 1, 2, bytes_of("early")}, late{2, 3, 4, {}}, other{9, 5, 6, bytes_of("other")};
  for (int i = 0; i < 3; ++i) {
    pair.journal->append(pair.model.rounds(), CastBallot{7, 0, 0, bytes_of("replaced")});
    pair.journal->append(pair.model.rounds(), early);
    pair.member();
    pair.journal->append(pair.model.rounds(), other);
    pair.snapshot(kAll);
    if (i == 2) pair.snapshot(0);  // over the one before, as the very first: the log stays
    pair.journal->append(pair.model.rounds(), late);
    const RoundRecord round{pair.model.rounds(), {late, early}, pair.model.any_verdict(pair.random)};
    pair.journal->append(round.round, std::vector{2U, 7U}, round.verdict);
    pair.model.append(round);
    EXPECT_EQ(pair.difference(), "");
    EXPECT_EQ(pair.model.difference(opened(folder / "journal", Journal::Mode::read_only)), "");
  }
  // And if the round is never decided, they are cut off as ever.
  pair.ballots(2);
  pair.snapshot(kAll);
  EXPECT_GT(fs::file_size(folder / "journal/rounds-3.log"), kStartBytes);
  pair.open(Journal::Mode::append);
  EXPECT_EQ(fs::file_size(folder / "journal/rounds-3.log"), kStartBytes);
  EXPECT_EQ(pair.difference(), "");
  EXPECT_TRUE(pair.reports.empty());
}

TEST(Journal, a_log_of_another_version_is_left_alone) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(4), 4);
  pair.round();
  pair.journal.reset();
  const fs::path log = folder / "journal/rounds-0.log";
  Bytes bytes = read_file(log);
  bytes[3] = std::byte{'1'};
  write_plainly(log, bytes);
  for (const Journal::Mode mode : {Journal::Mode::read_only, Journal::Mode::append}) {
    const std::string message = refusal([&] { opened(folder / "journal", mode); });
    EXPECT_TRUE(names(message, log.string())) << message;
    EXPECT_TRUE(names(message, "another version")) << message;
    EXPECT_EQ(read_file(log), bytes);
  }
}

// A journal of version 2 is a log without a start, and goes on as one until the next snapshot.
TEST(Journal, of_version_two_is_read_and_goes_on) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(4), 15);
  pair.rounds(2);
  pair.journal.reset();
  const fs::path log = folder / "journal/rounds-0.log";
  for (const bool empty : {false, true}) {
    Bytes old;
    if (empty) {
      JournalModel fresh(first_snapshot(4));
      std::swap(pair.model, fresh);
    } else {
      for (const JournalEvent& event : pair.model.since) {
        const auto& round = std::get<RoundRecord>(event);
        VerdictRecord verdict{round.round, {}, round.verdict};
        for (const CastBallot& ballot : round.ballots) {
          old = joined({old, encoded(BallotRecord{round.round, ballot}, old.size())});
          verdict.counted.push_back(ballot.worker);
        }
        old = joined({old, encoded(verdict, old.size())});
      }
    }
    fs::remove_all(folder / "journal");
    Journal::create(folder / "journal", first_snapshot(4));
    write_plainly(log, old);
    pair.open(Journal::Mode::append);
    EXPECT_EQ(pair.difference(), "");
    pair.rounds(2);
    pair.open(Journal::Mode::append);
    EXPECT_EQ(pair.difference(), "");
    Bytes bytes = read_file(log);
    EXPECT_EQ(bytes[3], std::byte{'2'});
    pair.ballots(2);
    pair.snapshot(kAll);
    pair.round();
    const auto round = std::to_string(pair.model.snapshot.round);
    bytes = read_file(folder / ("journal/rounds-" + round + ".log"));
    EXPECT_EQ(bytes[3], std::byte{'3'});
    EXPECT_EQ(pair.difference(), "");
    pair.open(Journal::Mode::append);
    EXPECT_EQ(pair.difference(), "");
  }
  EXPECT_TRUE(pair.reports.empty());
}

TEST(Journal, every_log_has_a_seed_of_its_own) {
  const TemporaryFolder folder;
  std::set<std::uint64_t> seeds;
  for (int i = 0; i < 3; ++i) {
    JournalPair pair(folder / std::to_string(i), first_snapshot(4), 16);
    pair.round();
    pair.snapshot(kAll);
    for (const char* name : {"rounds-1.log", "verdicts-0-1.log"})
      seeds.insert(read_start(InputFile(pair.folder / name)).seed);
  }
  EXPECT_EQ(seeds.size(), 6U);
}

// A worker chooses the bytes of its ballot, but not what the journal takes for a record: here the loss of
// power takes the first ballot, and the second holds a header that says the first had been synced.
TEST(Journal, a_ballot_cannot_make_a_torn_page_look_like_damage) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(4), 17);
  pair.rounds(2);
  const fs::path log = folder / "journal/rounds-0.log";
  const auto synced = fs::file_size(log);
  const Bytes forged = encoded(MemberRecord{0, "forged"}, UINT64_MAX);
  pair.journal->append(2, {.worker = 0, .batch = 1, .loss = 2, .message = Bytes(50)});
  const auto lost = fs::file_size(log);
  pair.journal->append(2, {.worker = 1, .batch = 1, .loss = 2, .message = forged});
  pair.journal.reset();
  Bytes bytes = read_file(log);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(synced),
            bytes.begin() + static_cast<std::ptrdiff_t>(lost), std::byte{0});
  write_plainly(log, bytes);
  pair.open(Journal::Mode::append);
  EXPECT_EQ(pair.reports.size(), 1U);
  EXPECT_EQ(pair.difference(), "");
  EXPECT_EQ(fs::file_size(log), synced);
}

TEST(Journal, only_its_owner_can_read_it) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0);
  {
    JournalPair pair(folder / "journal", first_snapshot(4), 18);
    pair.rounds(2);
    pair.snapshot(0);
    pair.rounds(2);
    pair.snapshot(kAll);
    pair.round();
    for (const std::string& name : pair.model.names())
      EXPECT_EQ(fs::status(folder / ("journal/" + name)).permissions(),
                fs::perms::owner_read | fs::perms::owner_write)
          << name;
  }
  ::umask(before);
  EXPECT_EQ(fs::status(folder / "journal").permissions(), fs::perms::owner_all);
}

// In every piece, and at its edges: what a reader is given is right, or it is given nothing, and from then on
// the base instead.
TEST(Journal, a_snapshot_damaged_since_it_was_written_is_never_read_as_something_else) {
  constexpr std::size_t kSize = 600'000;  // two and a bit pieces of a megabyte
  constexpr std::size_t kHeader = 80, kPiece = 1 << 20;
  for (const bool opened_again : {false, true}) {
    for (const std::size_t at : {std::size_t{0}, kPiece - 1, kPiece, 2 * kPiece, 4 * kSize - 1}) {
      SCOPED_TRACE(fmt::format("byte {}, opened again {}", at, opened_again));
      const TemporaryFolder folder;
      JournalPair pair(folder / "journal", first_snapshot(kSize), 19);
      pair.rounds(1);
      pair.snapshot(kAll);
      if (opened_again) pair.open(Journal::Mode::append);
      const fs::path path = folder / "journal/snapshot-1.bin";
      const auto reader = pair.journal->open_snapshot();
      ASSERT_EQ(reader->round(), 1U);
      Bytes bytes = read_file(path);
      bytes[kHeader + at] ^= std::byte{1};
      {
        std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);  // the same inode
        file.seekp(static_cast<std::streamoff>(kHeader + at));
        file.put(static_cast<char>(bytes[kHeader + at]));
      }
      const auto expected = std::as_bytes(std::span(pair.model.snapshot.parameters));
      Bytes chunk;
      int refused = 0;
      for (std::size_t from = 0; from < expected.size(); from += chunk.size()) {
        chunk.resize(std::min(kPiece, expected.size() - from));
        const std::string message = refusal([&] { reader->read(from, chunk); });
        if (message == "accepted") {
          EXPECT_TRUE(std::ranges::equal(chunk, expected.subspan(from, chunk.size())));
        } else {
          EXPECT_TRUE(names(message, path.string())) << message;
          ++refused;
        }
      }
      EXPECT_EQ(refused, 1);
      EXPECT_NE(refusal([&] { opened(folder / "journal", Journal::Mode::read_only); }), "accepted");
      const auto older = pair.journal->open_snapshot();
      EXPECT_EQ(older->round(), 0U);
      chunk.resize(4 * kSize);
      older->read(0, chunk);
      EXPECT_TRUE(std::ranges::equal(chunk, std::as_bytes(std::span(pair.model.history[0]))));
      pair.round();
      pair.snapshot(kAll);  // replaces it
      EXPECT_EQ(pair.journal->open_snapshot()->round(), 2U);
      EXPECT_EQ(pair.difference(), "");
    }
  }
}

TEST(Journal, exists_once_it_was_created) {
  const TemporaryFolder folder;
  EXPECT_FALSE(Journal::exists(folder / "journal"));
  EXPECT_FALSE(Journal::exists(folder.path()));
  write_file_atomically(folder / "config.toml", "other files do not matter");
  write_file_atomically(folder / "base-07.bin", "nor do names that no journal would write");
  Journal::create(folder.path(), first_snapshot(4));
  EXPECT_TRUE(Journal::exists(folder.path()));
  EXPECT_THROW(Journal::create(folder.path(), first_snapshot(4)), ConfigError);
  const Journal journal = opened(folder.path());
  EXPECT_EQ(JournalModel(first_snapshot(4)).difference(journal), "");
  EXPECT_EQ(read_text_file(folder / "base-07.bin"), "nor do names that no journal would write");
  EXPECT_TRUE(names(refusal([&] { opened(folder / "nowhere"); }), "snapshot"));
}

TEST(Journal, models_outside_of_it_are_refused) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(4), 1);
  pair.rounds(2);
  pair.snapshot(0);
  pair.round();
  for (const std::uint64_t round : {0U, 1U, 4U})
    EXPECT_THROW(pair.journal->model(round, step_of), ConfigError);
  EXPECT_EQ(pair.difference(), "");
}

// Several verdict files, members, rounds before and after the last snapshot.
void fill(JournalPair& pair) {
  pair.rounds(2);
  pair.snapshot(kAll);
  pair.rounds(3);
  pair.snapshot(3);
  pair.rounds(1);
  pair.snapshot(3);
  pair.member();
  pair.rounds(2);
  pair.ballot();
  pair.member();
  pair.ballots(2);
  pair.verdict();
}

// Where the records of a log end, and those of them after which it says more than before.
struct LogEnds {
  std::set<std::size_t> records = {kStartBytes};
  std::vector<std::size_t> events = {kStartBytes};

  explicit LogEnds(const Bytes& log) {
    std::uint64_t seed = 0;
    std::memcpy(&seed, log.data() + 8, sizeof seed);
    for (std::size_t at = kStartBytes; at < log.size();) {
      const DecodedRecord decoded = decode_record(std::span(log).subspan(at), at, seed);
      if (decoded.status != RecordStatus::ok) throw std::logic_error(decoded.problem);
      at += decoded.length;
      records.insert(at);
      if (!std::holds_alternative<BallotRecord>(decoded.record)) events.push_back(at);
    }
  }
  /// So many events lie whole in the log's first `bytes` bytes.
  std::size_t within(std::size_t bytes) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(events, bytes) - events.begin()) - 1;
  }
};

// As `model`, but with so many events after the snapshot.
JournalModel cut_to(const JournalModel& model, std::size_t events) {
  JournalModel cut = model;
  const std::size_t before = model.snapshot.round - model.start;
  cut.since.clear();
  cut.verdicts.resize(before);
  cut.history.resize(before + 1);
  for (std::size_t i = 0; i < events; ++i) cut.append(model.since[i]);
  return cut;
}

TEST(Journal, a_log_cut_anywhere_ends_with_its_last_member_or_verdict) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(9), 5);
  fill(pair);
  pair.ballots(2);
  const fs::path log = folder / "journal/rounds-6.log";
  const Bytes whole = read_file(log);
  const LogEnds ends(whole);
  ASSERT_EQ(ends.events.size(), pair.model.since.size() + 1);
  ASSERT_GT(ends.records.size(), ends.events.size() + 4);
  for (std::size_t length = 1; length < kStartBytes; ++length) {  // no crash leaves this
    write_plainly(log, std::span(whole).first(length));
    const std::string message = refusal([&] { opened(folder / "journal"); });
    ASSERT_TRUE(names(message, log.string())) << message;
  }
  for (std::size_t length = kStartBytes; length <= whole.size(); ++length) {
    SCOPED_TRACE(length);
    write_plainly(log, std::span(whole).first(length));
    const JournalModel expected = cut_to(pair.model, ends.within(length));
    for (const Journal::Mode mode : {Journal::Mode::read_only, Journal::Mode::append}) {
      std::vector<std::string> reports;
      Journal journal(folder / "journal", mode, [&](const std::string& line) { reports.push_back(line); });
      ASSERT_EQ(expected.difference(journal), "");
      ASSERT_EQ(reports.size(), ends.records.contains(length) ? 0U : 1U);
      if (!reports.empty()) {
        ASSERT_TRUE(names(reports[0], log.string())) << reports[0];
      }
      ASSERT_EQ(fs::file_size(log),
                mode == Journal::Mode::append ? ends.events[ends.within(length)] : length);
      if (mode == Journal::Mode::read_only) continue;
      JournalModel next = expected;
      const RoundRecord round = next.any_round(pair.random);
      record(journal, round);
      next.append(round);
      ASSERT_EQ(next.difference(journal), "");
      ASSERT_EQ(next.difference(opened(folder / "journal")), "");
    }
  }
}

TEST(Journal, a_flipped_byte_anywhere_is_told) {
  for (const bool more_ballots : {false, true}) {
    const TemporaryFolder folder;
    JournalPair pair(folder / "journal", first_snapshot(9), 6);
    fill(pair);
    if (more_ballots) pair.ballots(2);
    pair.journal.reset();
    // Only what nothing in the log knows to have been synced may look like a crash: the last round, or
    // the ballots after it, which then know of that round.
    const LogEnds ends(read_file(folder / "journal/rounds-6.log"));
    const std::size_t kept = ends.events.size() - (more_ballots ? 1 : 2);
    const JournalModel cut = cut_to(pair.model, kept);
    std::size_t flips = 0;
    for (const std::string& name : pair.model.names()) {
      const fs::path path = folder / "journal" / name;
      const Bytes whole = read_file(path);
      for (std::size_t at = 0; at < whole.size(); ++at) {
        for (const int flip : {0x01, 0x80, 0xff}) {
          SCOPED_TRACE(fmt::format("{} byte {} flip {}", name, at, flip));
          Bytes damaged = whole;
          damaged[at] ^= static_cast<std::byte>(flip);
          write_plainly(path, damaged);
          ++flips;
          std::vector<std::string> reports;
          std::string difference;
          const std::string message = refusal([&] {
            const Journal journal(folder / "journal", Journal::Mode::read_only,
                                  [&](const std::string& line) { reports.push_back(line); });
            difference = cut.difference(journal);
          });
          if (name == "rounds-6.log" && at >= ends.events[kept]) {
            ASSERT_EQ(message, "accepted");
            ASSERT_EQ(difference, "");
            ASSERT_EQ(reports.size(), 1U);
            ASSERT_TRUE(names(reports[0], path.string())) << reports[0];
          } else {
            ASSERT_TRUE(names(message, path.string())) << message;
            ASSERT_EQ(refusal([&] { opened(folder / "journal"); }), message);
            ASSERT_EQ(read_file(path), damaged);  // nothing is changed where not all is well
          }
        }
      }
      write_plainly(path, whole);
    }
    RecordProperty(more_ballots ? "flips_before_ballots" : "flips", static_cast<int>(flips));
    pair.open(Journal::Mode::append);
    EXPECT_EQ(pair.difference(), "");
  }
}

TEST(Journal, whole_records_that_do_not_follow_from_each_other_are_told) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(9), 14);
  pair.round();
  pair.snapshot(kAll);
  pair.journal.reset();
  const auto ballot = [](std::uint64_t round) { return encoded(BallotRecord{round, {3, 1, 2, {}}}); };
  const auto verdict = [](std::uint64_t round, std::vector<std::uint32_t> counted) {
    return encoded(VerdictRecord{round, std::move(counted), Bytes(3)});
  };
  const Bytes member = encoded(MemberRecord{3, "name"});
  const auto told = [&](const std::string& name, const Bytes& before, const Bytes& wrong, const char* why) {
    const fs::path path = folder / "journal" / name;
    const Bytes whole = read_file(path);
    write_plainly(path, joined({before, wrong}));
    const std::string message = refusal([&] { opened(folder / "journal"); });
    EXPECT_TRUE(names(message, fmt::format("'{}' is damaged at byte {}", path.string(), before.size())))
        << message;
    EXPECT_TRUE(names(message, why)) << message;
    write_plainly(path, whole);
  };
  const char* const next = "is not what comes next";
  const char* const missing = "counts a ballot that is not there";
  told("rounds-1.log", member, ballot(0), next);
  told("rounds-1.log", ballot(1), ballot(2), next);
  told("rounds-1.log", member, verdict(0, {}), next);
  told("rounds-1.log", ballot(1), verdict(2, {}), next);
  told("rounds-1.log", joined({ballot(1), verdict(1, {})}), ballot(1), next);
  told("rounds-1.log", member, verdict(1, {3}), missing);
  told("rounds-1.log", ballot(1), verdict(1, {3, 4}), missing);
  told("rounds-1.log", joined({ballot(1), verdict(1, {3})}), verdict(2, {3}), missing);
  told("verdicts-0-1.log", {}, member, "among verdicts");
  told("verdicts-0-1.log", {}, ballot(0), "among verdicts");
  told("verdicts-0-1.log", {}, verdict(0, {3}), missing);
  told("verdicts-0-1.log", verdict(0, {}), verdict(1, {}), next);
  EXPECT_EQ(pair.model.difference(opened(folder / "journal")), "");
}

TEST(Journal, a_file_that_is_cut_longer_missing_or_anothers_is_told) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(9), 7);
  fill(pair);
  pair.journal.reset();
  const std::set<std::string> all = pair.model.names();
  ASSERT_EQ(all, (std::set<std::string>{"base-2.bin", "verdicts-2-5.log", "verdicts-5-6.log",
                                        "snapshot-6.bin", "rounds-6.log"}));
  for (const std::string& name : all) {
    const fs::path path = folder / "journal" / name;
    const Bytes whole = read_file(path);
    const auto told = [&](const std::string& part) {
      const std::string message = refusal([&] { opened(folder / "journal"); });
      EXPECT_TRUE(names(message, part)) << name << ": " << message;
    };
    fs::remove(path);
    told(name == "verdicts-2-5.log"   ? "rounds 2 to 4 "
         : name == "verdicts-5-6.log" ? "rounds 5 to 5 "
         : name == "rounds-6.log"     ? "rounds-6.log"
                                      : name.substr(0, name.find('-')));
    if (name != "rounds-6.log") {
      for (std::size_t length = 0; length < whole.size(); ++length) {
        write_plainly(path, std::span(whole).first(length));
        told(path.string());
      }
      Bytes longer = whole;
      longer.push_back(std::byte{0});
      write_plainly(path, longer);
      told(path.string());
    }
    for (const std::string& other : all) {
      if (other == name) continue;
      write_plainly(path, read_file(folder / "journal" / other));
      told(path.string());
    }
    write_plainly(path, whole);
  }
  // A whole file of another model, and a name that lies.
  const TemporaryFolder elsewhere;
  JournalPair smaller(elsewhere / "journal", first_snapshot(8), 7);
  fill(smaller);
  const Bytes whole = read_file(folder / "journal/base-2.bin");
  write_plainly(folder / "journal/base-2.bin", read_file(elsewhere / "journal/base-2.bin"));
  EXPECT_TRUE(names(refusal([&] { opened(folder / "journal"); }), "different models"));
  write_plainly(folder / "journal/base-2.bin", whole);
  fs::rename(folder / "journal/base-2.bin", folder / "journal/base-5.bin");
  EXPECT_TRUE(names(refusal([&] { opened(folder / "journal"); }), "is not what its name says"));
}

// A log that lost its end looks torn; only the snapshot that was begun with it knows better.
TEST(Journal, rounds_that_an_unfinished_snapshot_knows_of_are_missed) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(9), 13);
  pair.rounds(3);
  const fs::path log = folder / "journal/rounds-0.log";
  const Bytes whole = read_file(log);
  pair.snapshot(kAll);
  pair.journal.reset();
  const Bytes snapshot = read_file(folder / "journal/snapshot-3.bin");
  fs::remove_all(folder / "journal");
  Journal::create(folder / "journal", first_snapshot(9));
  write_plainly(folder / "journal/snapshot-3.bin", snapshot);
  write_plainly(log, std::span(whole).first(whole.size() - 1));
  for (const Journal::Mode mode : {Journal::Mode::read_only, Journal::Mode::append}) {
    const std::string message = refusal([&] { opened(folder / "journal", mode); });
    EXPECT_TRUE(names(message, log.string())) << message;
    EXPECT_TRUE(names(message, "snapshot-3.bin")) << message;
  }
  EXPECT_EQ(fs::file_size(log), whole.size() - 1);
  write_plainly(log, whole);
  EXPECT_EQ(opened(folder / "journal").rounds(), 3U);
  EXPECT_FALSE(fs::exists(folder / "journal/snapshot-3.bin"));
}

TEST(Journal, a_verdict_damaged_since_it_was_opened_is_told) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(9), 8);
  fill(pair);
  for (const std::uint64_t round : {std::uint64_t{3}, pair.model.rounds() - 1}) {
    const fs::path log = folder / "journal" / (round == 3 ? "verdicts-2-5.log" : "rounds-6.log");
    Bytes bytes = read_file(log);
    const Bytes& verdict = pair.model.verdicts[round];
    const auto found = std::search(bytes.begin(), bytes.end(), verdict.begin(), verdict.end());
    ASSERT_NE(found, bytes.end());
    found[65] ^= std::byte{4};
    write_plainly(log, bytes);
    const std::string message = refusal([&] { (void)pair.journal->verdict(round); });
    EXPECT_TRUE(names(message, log.string())) << message;
    EXPECT_TRUE(names(message, fmt::format("round {}", round))) << message;
  }
  EXPECT_NE(refusal([&] { (void)pair.journal->model(4, step_of); }), "accepted");
  EXPECT_NE(refusal([&] { pair.journal->replay([](const JournalEvent&) {}); }), "accepted");
  const fs::path snapshot = folder / "journal/snapshot-6.bin";
  Bytes bytes = read_file(snapshot);
  bytes.back() ^= std::byte{1};
  write_plainly(snapshot, bytes);
  EXPECT_TRUE(names(refusal([&] { (void)pair.journal->snapshot(); }), snapshot.string()));
}

TEST(Journal, a_verdict_that_is_none_cannot_be_stepped) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(3), 9);
  pair.journal->append(0, {}, Bytes(3));
  EXPECT_TRUE(names(refusal([&] { (void)pair.journal->model(1, step_of); }), "the verdict of round 0"));
}

TEST(Journal, a_snapshot_stays_readable_when_it_is_replaced) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(1000), 10);
  const auto reader = pair.journal->open_snapshot();
  const std::vector<float> parameters = pair.model.snapshot.parameters;
  pair.rounds(2);
  pair.snapshot(0);
  EXPECT_FALSE(fs::exists(folder / "journal/snapshot-0.bin"));
  EXPECT_EQ(reader->round(), 0U);
  ASSERT_EQ(reader->parameter_bytes(), 4000U);
  std::vector<float> some(10);
  reader->read(400, std::as_writable_bytes(std::span(some)));
  EXPECT_TRUE(std::equal(some.begin(), some.end(), parameters.begin() + 100));
}

TEST(Journal, verdicts_are_read_while_rounds_go_on) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(200), 11);
  constexpr std::uint64_t kRounds = 120;
  std::vector<RoundRecord> records;  // made before, so that readers know what to expect
  JournalModel script = pair.model;
  while (script.rounds() < kRounds) {
    records.push_back(script.any_round(pair.random));
    script.append(records.back());
  }
  std::atomic<bool> done = false;
  std::atomic<std::uint64_t> wrong = 0, turns = 0;
  const auto reader = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    while (!done) {
      const std::uint64_t before = pair.journal->rounds();
      const std::uint64_t round = random() % (before + 2);
      const auto verdict = pair.journal->verdict(round);
      if (verdict) {
        wrong += *verdict != records[round].verdict;
      } else {
        wrong += round < before && round >= pair.journal->oldest();
      }
      const auto snapshot = pair.journal->open_snapshot();
      float first = 0;
      snapshot->read(0, std::as_writable_bytes(std::span(&first, 1)));
      wrong += first != script.history[snapshot->round()][0];
      ++turns;
    }
  };
  std::thread one(reader, 1), two(reader, 2);
  for (const RoundRecord& record : records) {
    pair.append(record);
    if (record.round % 7 == 6) pair.snapshot(record.round % 2 == 0 ? 10 : 25);
    for (const std::uint64_t before = turns; turns < before + 2;) std::this_thread::yield();
  }
  done = true;
  one.join();
  two.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(pair.difference(), "");
}

TEST(Journal, is_read_beside_its_writer) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(50), 12);
  std::atomic<bool> done = false, failed = false;
  std::atomic<int> opened_well = 0;
  std::string problem;
  std::thread reader([&] {
    while (!done) {
      problem = refusal([&] {
        const Journal journal = opened(folder / "journal", Journal::Mode::read_only);
        if (journal.rounds() < journal.oldest()) throw DataError("more dropped than recorded");
      });
      failed = problem != "accepted";
      if (failed) return;
      ++opened_well;
    }
  });
  while (opened_well < 200 && !failed) {
    pair.rounds(2);
    pair.ballots(3);
    pair.open(Journal::Mode::append);  // cuts them off
    pair.ballots(2);
    pair.snapshot(5);
  }
  done = true;
  reader.join();
  EXPECT_EQ(problem, "accepted");
}

}  // namespace
}  // namespace signvote
