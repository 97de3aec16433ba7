// What kill -9, the loss of power, a full disk and a failing one leave of a journal. The system calls by
// which it changes files go through here, so a child can really be killed before each of them, and within
// a write; and what had been synced by then is known.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>

#include "base/files.h"
#include "journal/journal.h"
#include "journal/journal_model.h"
#include "temporary_folder.h"

namespace {

struct Faults {
  long calls = 0;            // that change something, so far
  long kill_before = -1;     // the call that is not made
  bool kill_within = false;  // half of it is, if it is a write
  long fail_from = -1;       // this one and what follows fail with `error`...
  long fail_to = -1;         // ...up to this one
  int error = 0;
  std::vector<std::string>* trace = nullptr;
  std::uint64_t* synced = nullptr;          // the size of the file that was fdatasynced last
  std::function<void()> at_read = nullptr;  // called before a rounds log is read
};
bool faulty = false;
Faults faults;

std::string name_of(int fd) {
  std::array<char, 4096> target{};
  const ssize_t length =
      ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target.data(), target.size());
  return std::filesystem::path(std::string(target.data(), length > 0 ? static_cast<std::size_t>(length) : 0))
      .filename()
      .string();
}

// Whether the call is to fail. Does not return where the process is to end.
bool enter(const char* call, const std::string& name) {
  const long number = faults.calls++;
  if (faults.trace != nullptr) faults.trace->push_back(std::string(call) + " " + name);
  if (number == faults.kill_before && !faults.kill_within) ::kill(::getpid(), SIGKILL);
  return number >= faults.fail_from && number < faults.fail_to;
}

template <class... Arguments>
int make_call(const char* call, const std::string& name, Arguments... arguments) {
  if (enter(call, name)) {
    errno = faults.error;
    return -1;
  }
  const auto result = static_cast<int>(::syscall(arguments...));
  if (faults.calls - 1 == faults.kill_before) ::kill(::getpid(), SIGKILL);
  return result;
}

}  // namespace

extern "C" {
int fsync(int fd) {
  return faulty ? make_call("fsync", name_of(fd), SYS_fsync, fd) : static_cast<int>(::syscall(SYS_fsync, fd));
}
int fdatasync(int fd) {
  if (!faulty) return static_cast<int>(::syscall(SYS_fdatasync, fd));
  const int result = make_call("fdatasync", name_of(fd), SYS_fdatasync, fd);
  struct stat status {};
  if (faults.synced != nullptr && result == 0 && ::fstat(fd, &status) == 0)
    *faults.synced = static_cast<std::uint64_t>(status.st_size);
  return result;
}
ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  if (faulty && faults.at_read && name_of(fd).starts_with("rounds-")) faults.at_read();
  return ::syscall(SYS_pread64, fd, data, size, offset);
}
int ftruncate(int fd, off_t length) noexcept {
  return faulty ? make_call("ftruncate", name_of(fd), SYS_ftruncate, fd, length)
                : static_cast<int>(::syscall(SYS_ftruncate, fd, length));
}
int unlink(const char* path) noexcept {
  return faulty ? make_call("unlink", std::filesystem::path(path).filename(), SYS_unlink, path)
                : static_cast<int>(::syscall(SYS_unlink, path));
}
int rename(const char* from, const char* to) noexcept {
  return faulty ? make_call("rename", std::filesystem::path(to).filename(), SYS_rename, from, to)
                : static_cast<int>(::syscall(SYS_rename, from, to));
}
ssize_t write(int fd, const void* data, size_t size) {
  if (!faulty) return ::syscall(SYS_write, fd, data, size);
  if (enter("write", name_of(fd))) {
    errno = faults.error;
    return -1;
  }
  const bool last = faults.calls - 1 == faults.kill_before;
  const ssize_t written = ::syscall(SYS_write, fd, data, last ? size / 2 : size);
  if (last) ::kill(::getpid(), SIGKILL);
  return written;
}
}

namespace signvote {
namespace {

namespace fs = std::filesystem;

class WithFaults {
 public:
  explicit WithFaults(const Faults& wanted) {
    faults = wanted;
    faulty = true;
  }
  ~WithFaults() { faulty = false; }
};

// Runs `body` in a child with these faults. True: it was killed; false: it got to the end.
template <class Body>
bool killed(const Faults& wanted, const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const WithFaults with(wanted);
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child failed: " << status;
  return false;
}

void ignore(const std::string& /*line*/) {}

void replace(const fs::path& folder, const fs::path& by) {
  fs::remove_all(folder);
  if (fs::exists(by)) fs::copy(by, folder);
}

// Which of `models` the folder holds, read without changing it. -1: none.
int find(const fs::path& folder, const std::vector<JournalModel>& models) {
  const Journal journal(folder, Journal::Mode::read_only, ignore);
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (models[i].difference(journal).empty()) return static_cast<int>(i);
  }
  return -1;
}

// The folder holds one of `models`: says which, after it was opened for appending and went on well.
int recover(const fs::path& folder, const std::vector<JournalModel>& models) {
  const int found = find(folder, models);
  if (found < 0) return found;
  JournalPair pair(folder, models[static_cast<std::size_t>(found)], 3);
  EXPECT_EQ(pair.difference(), "");
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder)) left.insert(entry.path().filename());
  EXPECT_EQ(left, pair.model.names());
  pair.rounds(2);
  pair.snapshot(4);
  pair.round();
  EXPECT_EQ(pair.difference(), "");
  pair.open(Journal::Mode::append);
  EXPECT_EQ(pair.difference(), "");
  return found;
}

// Kills `work`, a change of the journal in `folder`, before and within each of its calls. What is left
// must be one of `models`, never an earlier one after a later one, and must be again if whoever
// recovers is killed in turn. Returns how often it was killed.
template <class Work>
int kill_everywhere(const fs::path& folder, const std::vector<JournalModel>& models, const Work& work) {
  const TemporaryFolder keep;
  fs::copy(folder, keep / "before");
  int kills = 0, latest = 0;
  bool more = true;
  for (long call = 0; more; ++call) {
    for (const bool within : {false, true}) {
      SCOPED_TRACE(fmt::format("killed {} call {}", within ? "within" : "before", call));
      replace(folder, keep / "before");
      more = killed({.kill_before = call, .kill_within = within}, work);
      kills += more;
      replace(keep / "crashed", folder);
      bool again = true;
      for (long second = 0; again && more; ++second) {
        replace(folder, keep / "crashed");
        again = killed({.kill_before = second},
                       [&] { const Journal journal(folder, Journal::Mode::append, ignore); });
        kills += again;
        const int found = recover(folder, models);
        EXPECT_GE(found, latest) << "after " << second;
        if (found < latest) return kills;
        latest = found;
      }
      if (!more) {
        EXPECT_EQ(recover(folder, models), static_cast<int>(models.size()) - 1);
      }
    }
  }
  return kills;
}

// Ballots that a writer before has left: those before a member, and those at the end.
void leave_ballots(JournalPair& pair) {
  pair.ballots(2);
  pair.member();
  pair.ballots(2);
  pair.journal.reset();
}

TEST(Crash, while_a_snapshot_is_taken) {
  for (const std::uint64_t keep : {std::uint64_t{0}, std::uint64_t{4}, kAll}) {
    const TemporaryFolder folder;
    JournalPair pair(folder / "journal", first_snapshot(9), 1);
    for (int i = 0; i < 2; ++i) {
      pair.rounds(2);
      pair.snapshot(kAll);
    }
    pair.member();
    pair.rounds(3);
    leave_ballots(pair);
    const State next = pair.model.any_snapshot(pair.random);
    std::vector<JournalModel> models = {pair.model, pair.model};
    models[1].take_snapshot(next, kAll);
    if (keep != kAll) {
      models.push_back(models[1]);
      models[2].take_snapshot(next, keep);
    }
    // The open round has a ballot before the snapshot, and is decided after it.
    RoundRecord round{next.round, {{4, 1, 2, Bytes(5)}}, pair.model.any_verdict(pair.random)};
    models.push_back(models.back());
    models.back().append(round);
    const int kills = kill_everywhere(folder / "journal", models, [&] {
      Journal journal(folder / "journal", Journal::Mode::append, ignore);
      journal.append(next.round, round.ballots[0]);
      journal.take_snapshot(next, keep, step_of);
      journal.append(next.round, std::vector{4U}, round.verdict);
    });
    EXPECT_GT(kills, 20);
    RecordProperty(fmt::format("kills_keep_{}", keep == kAll ? "all" : std::to_string(keep)), kills);
  }
}

TEST(Crash, while_a_snapshot_is_taken_again) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(9), 2);
  pair.rounds(2);
  pair.snapshot(kAll);
  leave_ballots(pair);
  const State next = pair.model.any_snapshot(pair.random);
  std::vector<JournalModel> models = {pair.model, pair.model, pair.model};
  models[1].take_snapshot(next, kAll);
  models[2].take_snapshot(next, 0);
  kill_everywhere(folder / "journal", models, [&] {
    Journal journal(folder / "journal", Journal::Mode::append, ignore);
    journal.take_snapshot(next, 0, step_of);
  });
}

// Rounds and members, and the models before, between and after them.
struct Script {
  std::vector<JournalEvent> events;
  std::vector<JournalModel> models;

  Script(JournalPair& pair, int rounds) : models{pair.model} {
    for (int i = 0; i < rounds; ++i) {
      RoundRecord round{models.back().rounds(), {}, models.back().any_verdict(pair.random)};
      for (std::uint32_t worker = 0; worker < 3; ++worker)
        round.ballots.push_back({worker, 1, 2, random_bytes(pair.random() % 300, pair.random)});
      add(round);
      add(JournalModel::any_member(pair.random));
    }
  }
  void add(const JournalEvent& event) {
    events.push_back(event);
    models.push_back(models.back());
    models.back().append(event);
  }
  void play(
      Journal& journal, const std::function<void()>& after_each = [] {}) const {
    for (const JournalEvent& event : events) {
      if (const auto* round = std::get_if<RoundRecord>(&event))
        record(journal, *round);
      else
        journal.append(std::get<MemberRecord>(event));
      after_each();
    }
  }
};

TEST(Crash, while_ballots_come_and_rounds_are_decided) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(9), 3);
  pair.rounds(2);
  leave_ballots(pair);
  const Script script(pair, 2);
  const int kills = kill_everywhere(folder / "journal", script.models, [&] {
    Journal journal(folder / "journal", Journal::Mode::append, ignore);
    script.play(journal);
  });
  EXPECT_GT(kills, 20);
}

// As after the loss of power: what was synced is there; of the rest any block may be missing, and any of
// the end.
void lose_unsynced(const fs::path& log, std::uint64_t synced, std::mt19937_64& random) {
  Bytes bytes = read_file(log);
  const std::uint64_t block = std::array{8, 64, 512}[random() % 3];
  for (std::uint64_t from = synced; from < bytes.size();) {
    const std::uint64_t to = std::min<std::uint64_t>(bytes.size(), (from / block + 1) * block);
    if (random() % 2 == 0) std::fill(bytes.begin() + from, bytes.begin() + to, std::byte{0});
    from = to;
  }
  if (random() % 2 == 0) bytes.resize(synced + random() % (bytes.size() - synced + 1));
  write_file_atomically(log, bytes);
}

TEST(Crash, where_power_is_lost_what_was_synced_is_there) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(9), 11);
  pair.rounds(2);
  leave_ballots(pair);
  const Script script(pair, 3);
  const fs::path log = folder / "journal/rounds-0.log";
  fs::copy(folder / "journal", folder / "before");
  std::vector<std::uint64_t> ends;  // of the log, before and after each event
  {
    Journal journal(folder / "journal", Journal::Mode::append, ignore);
    ends.push_back(fs::file_size(log));
    script.play(journal, [&] { ends.push_back(fs::file_size(log)); });
  }
  void* const shared =
      ::mmap(nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& synced = *static_cast<std::uint64_t*>(shared);
  bool more = true;
  int later = 0;
  for (long call = 0; more; ++call) {
    for (const bool within : {false, true}) {
      replace(folder / "journal", folder / "before");
      synced = ends[0];
      more = killed({.kill_before = call, .kill_within = within, .synced = &synced}, [&] {
        Journal journal(folder / "journal", Journal::Mode::append, ignore);
        script.play(journal);
      });
      const auto durable = std::ranges::upper_bound(ends, synced) - ends.begin() - 1;
      if (!more) {
        EXPECT_EQ(durable, std::ssize(script.events));
      }
      replace(folder / "crashed", folder / "journal");
      for (int i = 0; i < 5; ++i) {
        SCOPED_TRACE(fmt::format("killed {} call {}, {} events synced, attempt {}",
                                 within ? "within" : "before", call, durable, i));
        replace(folder / "journal", folder / "crashed");
        lose_unsynced(log, synced, pair.random);
        const int found = recover(folder / "journal", script.models);
        ASSERT_GE(found, durable);
        ASSERT_LE(found, durable + 1);
        later += found > durable;
      }
    }
  }
  EXPECT_GT(later, 0);  // all of the next event had come through by chance
  ::munmap(shared, sizeof(std::uint64_t));
}

// A writer that starts while another process reads: what is cut off may be missed at each of the reads.
TEST(Crash, a_reader_looks_again_if_the_writer_cuts_the_log_meanwhile) {
  for (const bool grows_again : {false, true}) {
    long reads = 0;
    for (long when = 0; when <= reads; ++when) {
      SCOPED_TRACE(fmt::format("before read {}, grows again {}", when, grows_again));
      const TemporaryFolder folder;
      JournalPair pair(folder / "journal", first_snapshot(9), 12);
      pair.rounds(2);
      pair.ballots(3);
      const JournalModel before = pair.model;
      reads = 0;
      std::optional<Journal> beside;
      {
        const WithFaults with({.at_read = [&] {
          if (reads++ != when) return;
          pair.open(Journal::Mode::append);
          if (!grows_again) return;
          pair.member();
          pair.ballots(20);
        }});
        beside.emplace(folder / "journal", Journal::Mode::read_only, ignore);
      }
      EXPECT_TRUE(before.difference(*beside).empty() || pair.model.difference(*beside).empty());
    }
    EXPECT_GT(reads, 10);
  }
}

TEST(Crash, while_it_is_created) {
  const TemporaryFolder folder;
  const State start = first_snapshot(9);
  bool more = true, existed = false;
  long call = 0;
  for (; more; ++call) {
    fs::remove_all(folder / "journal");
    more = killed({.kill_before = call}, [&] { Journal::create(folder / "journal", first_snapshot(9)); });
    EXPECT_GE(Journal::exists(folder / "journal"), existed);
    existed = Journal::exists(folder / "journal");
    const State second = first_snapshot(9, 4);
    if (!existed) Journal::create(folder / "journal", second);
    EXPECT_EQ(recover(folder / "journal", {JournalModel(existed ? start : second)}), 0) << call;
  }
  EXPECT_TRUE(existed);
  EXPECT_GT(call, 8);
}

TEST(Sync, a_ballot_costs_a_write_and_a_verdict_or_member_a_sync_as_well) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(9), 4);
  std::vector<std::string> trace;
  const auto calls = [&](const auto& work) {
    trace.clear();
    const WithFaults with({.trace = &trace});
    work();
    return trace;
  };
  const std::string write = "write rounds-0.log", sync = "fdatasync rounds-0.log",
                    cut = "ftruncate rounds-0.log", folder_sync = "fsync journal";
  using Calls = std::vector<std::string>;
  EXPECT_EQ(calls([&] { pair.ballots(2); }), (Calls{write, write}));
  EXPECT_EQ(calls([&] { pair.verdict(); }), (Calls{write, sync}));
  EXPECT_EQ(calls([&] { pair.member(); }), (Calls{write, sync}));
  // What a killed writer has left may be read by others from now on, so it is synced first, and so is the
  // log's name.
  EXPECT_EQ(calls([&] { pair.open(Journal::Mode::append); }), (Calls{sync, folder_sync}));
  pair.ballot();
  EXPECT_EQ(calls([&] { pair.open(Journal::Mode::append); }), (Calls{cut, sync, folder_sync}));
  EXPECT_EQ(calls([&] { pair.open(Journal::Mode::read_only); }), Calls{});
}

TEST(Sync, a_new_folder_and_those_above_it_are_on_the_disk_before_anything_is_in_them) {
  const TemporaryFolder folder;
  std::vector<std::string> trace;
  {
    const WithFaults with({.trace = &trace});
    Journal::create(folder / "a/b/journal", first_snapshot(9));
  }
  trace.resize(4);
  EXPECT_EQ(trace, (std::vector<std::string>{"fsync " + folder.path().filename().string(), "fsync a",
                                             "fsync b", "write base-0.bin.tmp"}));
}

// kill -9 keeps what was written; the loss of power only what was synced. So nothing may go, or count,
// before what stands for it is on the disk: content before its name, names before what they replace.
TEST(Sync, a_snapshot_is_on_the_disk_before_anything_goes) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(9), 5);
  pair.rounds(2);
  pair.snapshot(kAll);
  pair.rounds(2);
  pair.ballot();
  std::vector<std::string> trace;
  {
    const WithFaults with({.trace = &trace});
    pair.snapshot(2);
  }
  trace.erase(std::unique(trace.begin(), trace.end()), trace.end());  // a file's writes are one
  EXPECT_EQ(trace, (std::vector<std::string>{"write snapshot-4.bin.tmp",
                                             "fsync snapshot-4.bin.tmp",
                                             "rename snapshot-4.bin",
                                             "fsync journal",
                                             "write verdicts-2-4.log.tmp",
                                             "fsync verdicts-2-4.log.tmp",
                                             "rename verdicts-2-4.log",
                                             "fsync journal",
                                             "write rounds-4.log.tmp",
                                             "fsync rounds-4.log.tmp",
                                             "rename rounds-4.log",
                                             "fsync journal",
                                             "fdatasync rounds-4.log",
                                             "unlink rounds-2.log",
                                             "unlink snapshot-2.bin",
                                             "write base-2.bin.tmp",
                                             "fsync base-2.bin.tmp",
                                             "rename base-2.bin",
                                             "fsync journal",
                                             "unlink base-0.bin",
                                             "unlink verdicts-0-2.log"}));
}

TEST(Disk, after_a_write_that_fails_the_journal_is_as_before) {
  for (const int ballots : {0, 1, 2}) {  // the write that fails: of a ballot, or of the verdict
    const TemporaryFolder folder;
    JournalPair pair(folder / "journal", first_snapshot(9), 6);
    pair.rounds(2);
    std::string message;
    {
      const WithFaults with({.fail_from = ballots, .fail_to = ballots + 1, .error = ENOSPC});
      message = refusal([&] {
        pair.ballots(2);
        pair.verdict();
      });
    }
    EXPECT_TRUE(names(message, (folder / "journal/rounds-0.log").string())) << message;
    EXPECT_TRUE(names(message, "No space left on device; free some space")) << message;
    EXPECT_EQ(pair.difference(), "");
    pair.ballot();
    pair.verdict();
    EXPECT_EQ(pair.difference(), "");
    pair.open(Journal::Mode::append);
    EXPECT_EQ(pair.difference(), "");
  }
}

TEST(Disk, after_a_sync_that_fails_nothing_more_is_taken) {
  // Of two ballots, a verdict and the sync: the sync alone, or the cutting back as well; or the write of
  // the verdict and the cutting back.
  for (const auto& [from, to] : {std::pair{3, 4}, std::pair{3, 5}, std::pair{2, 4}}) {
    const TemporaryFolder folder;
    JournalPair pair(folder / "journal", first_snapshot(9), 7);
    pair.rounds(2);
    const auto size = fs::file_size(folder / "journal/rounds-0.log");
    {
      const WithFaults with({.fail_from = from, .fail_to = to, .error = EIO});
      EXPECT_TRUE(names(refusal([&] {
                          pair.ballots(2);
                          pair.verdict();
                        }),
                        "Input/output error"));
    }
    if (from == 3 && to == 4) {
      EXPECT_EQ(fs::file_size(folder / "journal/rounds-0.log"), size);
    }
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(names(refusal([&] { pair.ballot(); }), "takes no more"));
      EXPECT_TRUE(names(refusal([&] { pair.verdict(); }), "takes no more"));
      EXPECT_TRUE(names(refusal([&] { pair.member(); }), "takes no more"));
      EXPECT_TRUE(names(refusal([&] { pair.snapshot(kAll); }), "takes no more"));
      EXPECT_EQ(pair.difference(), "");
    }
    if (to == 5) continue;  // the verdict may have come through: the next to open it will see
    pair.open(Journal::Mode::append);
    EXPECT_EQ(pair.difference(), "");
    pair.round();
    EXPECT_EQ(pair.difference(), "");
  }
}

// One call fails, then all that follow: whatever the journal then says of itself must be true, and it
// must go on or say that it does not.
TEST(Disk, a_snapshot_that_fails_loses_nothing) {
  for (const bool forever : {false, true}) {
    bool failed = true;
    for (long call = 0; failed; ++call) {
      SCOPED_TRACE(fmt::format("call {}{}", call, forever ? " and all after it" : ""));
      const TemporaryFolder folder;
      JournalPair pair(folder / "journal", first_snapshot(9), 8);
      pair.rounds(2);
      pair.snapshot(kAll);
      pair.rounds(2);
      pair.ballots(3);
      const State next = pair.model.any_snapshot(pair.random);
      std::vector<JournalModel> models = {pair.model, pair.model, pair.model};
      models[1].take_snapshot(next, kAll);
      models[2].take_snapshot(next, 2);
      std::string message;
      {
        const WithFaults with({.fail_from = call, .fail_to = forever ? 1000 : call + 1, .error = ENOSPC});
        message = refusal([&] { pair.journal->take_snapshot(next, 2, step_of); });
        failed = call < faults.calls;
      }
      EXPECT_TRUE(message == "accepted" || names(message, "No space left on device; free some space"))
          << message;
      const auto held = std::ranges::find_if(
          models, [&](const JournalModel& model) { return model.difference(*pair.journal).empty(); });
      ASSERT_NE(held, models.end());
      EXPECT_TRUE(message != "accepted" || held == models.end() - 1);
      pair.model = *held;
      const std::string after = refusal([&] { pair.round(); });
      EXPECT_TRUE(after == "accepted" || names(after, "takes no more")) << after;
      EXPECT_EQ(pair.difference(), "");
      if (after == "accepted") pair.rounds(2);
      pair.journal.reset();
      if (after == "accepted") {
        EXPECT_GE(find(folder / "journal",
                       {pair.model,
                        [&] {
                          JournalModel moved = pair.model;  // a base that was written though its call failed
                          moved.oldest = 2;
                          moved.files.erase(moved.files.begin(),
                                            moved.files.end() - (held == models.begin() ? 0 : 1));
                          return moved;
                        }()}),
                  0);
      } else {
        EXPECT_GE(recover(folder / "journal", models), 0);
      }
    }
  }
}

/// While it lives this process can open only so many files more, by the limit that a server has as well.
class FewDescriptors {
 public:
  explicit FewDescriptors(int left) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit{64, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    for (int fd = 0; (fd = ::dup(STDERR_FILENO)) >= 0;) taken_.push_back(fd);
    for (; left > 0 && !taken_.empty(); --left) give_back();
  }
  ~FewDescriptors() {
    while (!taken_.empty()) give_back();
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }

 private:
  void give_back() {
    ::close(taken_.back());
    taken_.pop_back();
  }

  rlimit before_{};
  std::vector<int> taken_;
};

// A flood of connections takes them all. That passes, and must not end the run: only an append that may have
// lost something does.
TEST(Disk, without_file_descriptors_snapshots_fail_and_rounds_go_on) {
  bool failed = true, later_calls_failed = false;
  int left = 0;
  for (; failed; ++left) {
    SCOPED_TRACE(fmt::format("{} descriptors left", left));
    const TemporaryFolder folder;
    JournalPair pair(folder / "journal", first_snapshot(9), 20);
    pair.rounds(2);
    pair.snapshot(kAll);
    pair.rounds(2);
    pair.ballots(3);
    const auto before = folder.names();
    {
      const FewDescriptors few(left);
      for (int i = 0; i < 3; ++i) {
        const State next = pair.model.any_snapshot(pair.random);
        const std::string message = refusal([&] { pair.journal->take_snapshot(next, kAll, step_of); });
        failed = message != "accepted";
        if (failed) {
          EXPECT_TRUE(names(message, "Too many open files")) << message;
          later_calls_failed = later_calls_failed || !names(message, "snapshot-4.bin.tmp");
        } else {
          pair.model.take_snapshot(next, kAll);
        }
        pair.round();
        pair.member();
        pair.ballots(2);
      }
    }
    EXPECT_EQ(pair.difference(), "");
    pair.snapshot(kAll);
    pair.round();
    EXPECT_EQ(pair.difference(), "");
    pair.open(Journal::Mode::append);
    EXPECT_EQ(pair.difference(), "");
    EXPECT_TRUE(pair.reports.empty());
    EXPECT_EQ(recover(folder / "journal", {pair.model}), 0);
  }
  EXPECT_GT(left, 2);
  EXPECT_TRUE(later_calls_failed);  // when something had to be undone
}

/// Whoever may mount has no excuse for not having a small disk.
bool may_mount() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (std::uint64_t rights = 0; word == "CapEff:" && status >> std::hex >> rights)
      return (rights >> CAP_SYS_ADMIN & 1) != 0;
  return false;
}

// A real full disk, in a mount of its own that ends with the child.
TEST(Disk, a_full_one_loses_nothing) {
  const TemporaryFolder folder;
  const fs::path disk = folder / "disk";
  fs::create_directories(disk);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", disk.c_str(), "tmpfs", 0, "size=1m") != 0) {
      fmt::print(stderr, "no small disk: {}\n", std::strerror(errno));
      ::_exit(77);
    }
    const auto require = [](bool held, const std::string& what) {
      if (held) return;
      fmt::print(stderr, "full disk: {}\n", what);
      ::_exit(1);
    };
    try {
      write_file_atomically(disk / "filler", std::string(700'000, 'x'));
      JournalPair pair(disk / "journal", first_snapshot(20'000), 9);
      int taken = 0;
      std::string message;
      while ((message = refusal([&] { pair.round(); })) == "accepted") ++taken;
      require(taken > 10 && names(message, "No space left on device; free some space"), message);
      require(pair.difference().empty(), "after an append: " + pair.difference());
      message = refusal([&] { pair.snapshot(0); });
      require(names(message, "No space left on device"), message);
      require(pair.difference().empty(), "after a snapshot: " + pair.difference());
      pair.open(Journal::Mode::append);
      require(pair.difference().empty(), "opened on a full disk");
      fs::remove(disk / "filler");
      pair.snapshot(0);
      pair.rounds(3);
      require(pair.difference().empty(), "with space again: " + pair.difference());
      pair.open(Journal::Mode::append);
      require(pair.difference().empty(), "opened again");
    } catch (const std::exception& error) {
      require(false, error.what());
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77 && !may_mount())
    GTEST_SKIP() << "a small disk needs CAP_SYS_ADMIN";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// The same where nothing can be mounted: a file that cannot grow takes a part of a record.
TEST(Disk, a_write_that_fails_halfway_is_taken_back) {
  const TemporaryFolder folder;
  JournalPair pair(folder / "journal", first_snapshot(4000), 10);
  pair.rounds(2);
  const auto size = fs::file_size(folder / "journal/rounds-0.log");
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{size + 100, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const std::string ballot = refusal([&] { pair.journal->append(2, {0, 1, 2, Bytes(1000)}); });
  const std::string verdict = refusal([&] { pair.verdict(); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(names(ballot, "File too large")) << ballot;
  EXPECT_TRUE(names(verdict, "File too large")) << verdict;
  EXPECT_EQ(fs::file_size(folder / "journal/rounds-0.log"), size);
  EXPECT_EQ(pair.difference(), "");
  pair.round();
  pair.open(Journal::Mode::append);
  EXPECT_EQ(pair.difference(), "");
}

}  // namespace
}  // namespace signvote
