// The journal gives back what went in, whatever was done in between; and damage anywhere is told, with
// its place, and never read as something else. What crashes and full disks leave is crash_test's.
#include "journal/journal.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <xxhash.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/files.h"
#include "journal/journal_model.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

Bytes encoded(const JournalRecord& record) {
  Bytes bytes;
  encode_record(record, bytes);
  return bytes;
}

Journal opened(const fs::path& folder, Journal::Mode mode = Journal::Mode::append) {
  return Journal(folder, mode, [](const std::string&) {});
}

void write_plainly(const fs::path& path, std::span<const std::byte> content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
}

JournalRecord any_record() {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const JournalModel model(first_snapshot(random() % 200, random()));
  if (random() % 3 == 0) return model.any_member(random);
  return model.any_round(random);
}

TEST(Record, RoundTripIsExact) {
  EXPECT_TRUE(rc::check("decode undoes encode", [] {
    const JournalRecord record = any_record();
    Bytes bytes = encoded(record);
    const std::size_t length = bytes.size();
    encode_record(any_record(), bytes);
    const DecodedRecord decoded = decode_record(bytes);
    RC_ASSERT(decoded.status == RecordStatus::ok);
    RC_ASSERT(decoded.length == length);
    RC_ASSERT(same(decoded.record, record));
    RC_ASSERT(decode_record(std::span(bytes).first(length)).status == RecordStatus::ok);
  }));
  EXPECT_EQ(decode_record({}).status, RecordStatus::end);
}

// docs/journal_format.md pinned: tests/journal/corpus is also what the fuzzer starts from.
TEST(Record, VersionOneIsPinned) {
  const fs::path corpus = fs::path(SIGNVOTE_TEST_DIR) / "journal/corpus";
  const auto bytes = [](std::string_view text) {
    const auto span = std::as_bytes(std::span(text));
    return Bytes(span.begin(), span.end());
  };
  EXPECT_EQ(read_file(corpus / "member"), encoded(MemberRecord{3, "berlin"}));
  const RoundRecord round{
      0x0102030405060708, {{1, 64, 0.5, bytes("ballot")}, {9, 0, -2.25, {}}}, bytes("verdict")};
  EXPECT_EQ(read_file(corpus / "round"), encoded(round));
  EXPECT_EQ(read_file(corpus / "verdict"), encoded(RoundRecord{5, {}, bytes("verdict")}));
}

TEST(Record, WhatIsCutIsTorn) {
  EXPECT_TRUE(rc::check("at every byte", [] {
    const Bytes bytes = encoded(any_record());
    for (std::size_t length = 1; length < bytes.size(); ++length) {
      const DecodedRecord decoded = decode_record(std::span(bytes).first(length));
      RC_ASSERT(decoded.status == RecordStatus::torn);
      RC_ASSERT(!decoded.problem.empty());
    }
  }));
}

TEST(Record, WhatIsDamagedIsCorruptIfMoreFollows) {
  EXPECT_TRUE(rc::check("every byte", [] {
    const Bytes first = encoded(any_record());
    Bytes both = first;
    encode_record(any_record(), both);
    for (std::size_t at = 0; at < first.size(); ++at) {
      const auto flip = static_cast<std::byte>(1U << *rc::gen::inRange(0, 8));
      Bytes alone = first;
      alone[at] ^= flip;
      RC_ASSERT(decode_record(alone).status == RecordStatus::torn);
      both[at] ^= flip;
      RC_ASSERT(decode_record(both).status == RecordStatus::corrupt);
      both[at] ^= flip;
    }
  }));
}

// docs/journal_format.md, by its offsets.
void seal(Bytes& record) {
  const auto put = [&record](std::size_t at, std::uint64_t value) {
    std::memcpy(record.data() + at, &value, sizeof value);
  };
  put(8, record.size() - 40);
  put(24, XXH3_64bits(record.data() + 40, record.size() - 40));
  put(32, XXH3_64bits(record.data(), 32));
}

TEST(Record, WhatNoWriterWritesIsCorruptThoughItsChecksumsAreRight) {
  const Bytes round = encoded(RoundRecord{7, {{1, 2, 3, Bytes(5)}}, Bytes(4)});
  const Bytes member = encoded(MemberRecord{1, "name"});
  const auto expect_corrupt = [](Bytes record, const std::string& why) {
    seal(record);
    const DecodedRecord decoded = decode_record(record);
    EXPECT_EQ(decoded.status, RecordStatus::corrupt) << why;
    EXPECT_TRUE(names(decoded.problem, why)) << decoded.problem;
  };
  Bytes unchanged = round;
  seal(unchanged);
  EXPECT_EQ(unchanged, round);
  for (const std::uint8_t type : {0, 3, 255}) {
    Bytes record = round;
    record[4] = std::byte{type};
    expect_corrupt(record, "unknown type");
  }
  // Counts and lengths of a round, and one that would wrap around: one too many, one too few, all bits.
  for (const std::size_t at : {40, 48, 56 + 16}) {
    for (const int change : {1, -1}) {
      Bytes record = round;
      record[at] = static_cast<std::byte>(std::to_integer<int>(record[at]) + change);
      expect_corrupt(record, "do not fill it");
    }
    Bytes record = round;
    std::fill_n(record.begin() + static_cast<std::ptrdiff_t>(at), 8, std::byte{0xff});
    expect_corrupt(record, "do not fill it");
  }
  Bytes longer = round;
  longer.push_back(std::byte{0});
  expect_corrupt(longer, "do not fill it");
  expect_corrupt(Bytes(round.begin(), round.begin() + 45), "do not fill it");
  expect_corrupt(Bytes(member.begin(), member.begin() + 43), "do not fill it");
  Bytes numbered = member;
  numbered[16] = std::byte{1};
  expect_corrupt(numbered, "do not fill it");
}

TEST(Record, AFileThatGrewButWasNotFilledIsTorn) {
  EXPECT_TRUE(rc::check("zeros from any byte on", [] {
    Bytes bytes = encoded(any_record());
    const auto from = *rc::gen::inRange<std::size_t>(0, bytes.size());
    if (std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end(),
                    [](std::byte byte) { return byte == std::byte{0}; }))
      return;
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end(), std::byte{0});
    RC_ASSERT(decode_record(bytes).status == RecordStatus::torn);
  }));
}

TEST(Journal, ScriptsEndAsInTheModel) {
  EXPECT_TRUE(rc::check("appends, snapshots and reopening", [](std::uint64_t seed) {
    const TemporaryFolder folder;
    const auto size = *rc::gen::element<std::size_t>(0, 1, 5, 64, 70);
    const auto start = *rc::gen::element<std::uint64_t>(0, 0, 3);
    JournalPair pair(folder / "journal", first_snapshot(size, start), seed);
    RC_ASSERT(pair.difference().empty());
    for (const int action : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 12))) {
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

TEST(Journal, ExistsOnceItWasCreated) {
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

TEST(Journal, ModelsOutsideOfItAreRefused) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(4), 1);
  pair.rounds(2);
  pair.snapshot(0);
  pair.round();
  for (const std::uint64_t round : {0U, 1U, 4U})
    EXPECT_THROW(pair.journal->model(round, kDelta), ConfigError);
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
  pair.member();
  pair.round();
}

// As `model`, but with the records after the snapshot that lie whole in the log's first `bytes` bytes.
JournalModel cut_to(const JournalModel& model, std::size_t bytes) {
  JournalModel cut = model;
  const std::size_t before = model.snapshot.round - model.start;
  cut.since.clear();
  cut.verdicts.resize(before);
  cut.history.resize(before + 1);
  std::size_t end = 0;
  for (const JournalRecord& record : model.since) {
    end += encoded(record).size();
    if (end > bytes) break;
    cut.append(record);
  }
  return cut;
}

TEST(Journal, ALogCutAnywhereEndsWithItsLastWholeRecord) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(9), 5);
  fill(pair);
  const fs::path log = folder / "journal/rounds-6.log";
  const Bytes whole = read_file(log);
  std::set<std::size_t> ends = {0};
  for (const JournalRecord& record : pair.model.since) ends.insert(*ends.rbegin() + encoded(record).size());
  ASSERT_EQ(*ends.rbegin(), whole.size());
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    SCOPED_TRACE(length);
    write_plainly(log, std::span(whole).first(length));
    const JournalModel expected = cut_to(pair.model, length);
    for (const Journal::Mode mode : {Journal::Mode::read_only, Journal::Mode::append}) {
      std::vector<std::string> reports;
      Journal journal(folder / "journal", mode, [&](const std::string& line) { reports.push_back(line); });
      ASSERT_EQ(expected.difference(journal), "");
      ASSERT_EQ(reports.size(), ends.contains(length) ? 0U : 1U);
      if (!reports.empty()) {
        ASSERT_TRUE(names(reports[0], log.string())) << reports[0];
      }
      const std::size_t kept = *std::prev(ends.upper_bound(length));
      ASSERT_EQ(fs::file_size(log), mode == Journal::Mode::append ? kept : length);
      if (mode == Journal::Mode::read_only) continue;
      JournalModel next = expected;
      const JournalRecord record = next.any_round(pair.random);
      journal.append(record);
      next.append(record);
      ASSERT_EQ(next.difference(journal), "");
      ASSERT_EQ(next.difference(opened(folder / "journal")), "");
    }
  }
}

TEST(Journal, AFlippedByteAnywhereIsTold) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(9), 6);
  fill(pair);
  pair.journal.reset();
  std::size_t flips = 0;
  for (const std::string& name : pair.model.names()) {
    const fs::path path = folder / "journal" / name;
    const Bytes whole = read_file(path);
    const bool active = name == "rounds-6.log";
    const std::size_t last = whole.size() - encoded(pair.model.since.back()).size();
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
          difference = cut_to(pair.model, last).difference(journal);
        });
        if (active && at >= last) {
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
  RecordProperty("flips", static_cast<int>(flips));
  pair.open(Journal::Mode::append);
  EXPECT_EQ(pair.difference(), "");
}

TEST(Journal, AFileThatIsCutLongerMissingOrAnothersIsTold) {
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
      if (other == name || (name == "rounds-6.log" && other == "verdicts-5-6.log")) continue;
      if (name == "rounds-6.log" && other.ends_with(".bin")) continue;  // no record at all: torn
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
TEST(Journal, RoundsThatAnUnfinishedSnapshotKnowsOfAreMissed) {
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

TEST(Journal, AVerdictDamagedSinceItWasOpenedIsTold) {
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
  EXPECT_NE(refusal([&] { (void)pair.journal->model(4, kDelta); }), "accepted");
  EXPECT_NE(refusal([&] { pair.journal->replay([](const JournalRecord&) {}); }), "accepted");
  const fs::path snapshot = folder / "journal/snapshot-6.bin";
  Bytes bytes = read_file(snapshot);
  bytes.back() ^= std::byte{1};
  write_plainly(snapshot, bytes);
  EXPECT_TRUE(names(refusal([&] { (void)pair.journal->snapshot(); }), snapshot.string()));
}

TEST(Journal, AVerdictThatIsNoneCannotBeStepped) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(3), 9);
  pair.journal->append(RoundRecord{.round = 0, .ballots = {}, .verdict = Bytes(3)});
  EXPECT_TRUE(names(refusal([&] { (void)pair.journal->model(1, kDelta); }), "the verdict of round 0"));
}

TEST(Journal, ASnapshotStaysReadableWhenItIsReplaced) {
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

TEST(Journal, VerdictsAreReadWhileRoundsGoOn) {
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

TEST(Journal, IsReadBesideItsWriter) {
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
    pair.snapshot(5);
  }
  done = true;
  reader.join();
  EXPECT_EQ(problem, "accepted");
}

}  // namespace
}  // namespace signvote
