// Files that are never half-written: what goes in comes out, and a failed write changes nothing.
#include "base/files.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <thread>

#include "signvote/error.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

// While it lives no file of this process can grow past `bytes`: the nearest thing to a full disk that
// needs no mount. A write fails with EFBIG, after a part of it has been written.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

// While it lives this process can open no file.
class NoFilesLeft {
 public:
  NoFilesLeft() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit{0, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~NoFilesLeft() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

bool names(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos && message.find('\n') == std::string::npos;
}

TEST(Files, content_comes_back) {
  const TemporaryFolder folder;
  EXPECT_TRUE(rc::check("the last content written is read", [&](const std::vector<std::uint8_t>& content) {
    write_file_atomically(folder / "file", std::as_bytes(std::span(content)));
    const std::vector<std::byte> back = read_file(folder / "file");
    RC_ASSERT(std::ranges::equal(back, std::as_bytes(std::span(content))));
    RC_ASSERT(folder.names() == std::set<std::string>{"file"});
  }));
  EXPECT_TRUE(rc::check("and so is text", [&](const std::string& text) {
    write_file_atomically(folder / "file", text);
    RC_ASSERT(read_text_file(folder / "file") == text);
  }));
  const std::string large(3'000'000, 'x');
  write_file_atomically(folder / "file", large);
  EXPECT_EQ(read_text_file(folder / "file"), large);
}

TEST(Files, a_path_without_folder_is_here) {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder / "");
  write_file_atomically("here", "content");
  fs::current_path(before);
  EXPECT_EQ(read_text_file(folder / "here"), "content");
}

TEST(Files, a_temporary_file_left_by_a_crash_is_no_hindrance) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file.tmp", "left behind, and longer than what follows");
  write_file_atomically(folder / "file", "new");
  EXPECT_EQ(read_text_file(folder / "file"), "new");
  EXPECT_EQ(folder.names(), std::set<std::string>{"file"});
}

TEST(Files, a_write_that_fails_halfway_leaves_the_old_content) {
  const TemporaryFolder folder;
  EXPECT_TRUE(rc::check("no half file, no leftovers", [&](const std::string& old) {
    write_file_atomically(folder / "file", old);
    const auto limit = *rc::gen::inRange<std::size_t>(0, 20'000);
    const auto beyond = *rc::gen::inRange<std::size_t>(1, 20'000);
    std::string message;
    {
      const FileSizeLimit limited(limit);
      message = refusal([&] { write_file_atomically(folder / "file", std::string(limit + beyond, 'x')); });
    }
    RC_ASSERT(names(message, (folder / "file").string()));
    RC_ASSERT(names(message, "File too large"));
    RC_ASSERT(read_text_file(folder / "file") == old);
    RC_ASSERT(folder.names() == std::set<std::string>{"file"});
  }));
}

TEST(Files, nothing_is_written_through_a_link_that_waits_under_the_temporary_name) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "victim", "old");
  for (const char* target : {"victim", "missing"}) {
    fs::create_symlink(folder / target, folder / "file.tmp");
    write_file_atomically(folder / "file", "new");
    EXPECT_EQ(read_text_file(folder / "victim"), "old");
    EXPECT_EQ(read_text_file(folder / "file"), "new");
    EXPECT_FALSE(fs::is_symlink(folder / "file"));
    EXPECT_EQ(folder.names(), (std::set<std::string>{"file", "victim"}));
  }
}

TEST(Files, are_readable_by_their_owner_only_if_that_is_wanted) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0);
  write_file_atomically(folder / "file", "content", Access::owner);
  write_file_atomically(folder / "open", "content");
  make_folder(folder / "above/folder", Access::owner);
  ::umask(before);
  const auto mode = [&](const char* name) { return fs::status(folder / name).permissions(); };
  EXPECT_EQ(mode("file"), fs::perms{0600});
  EXPECT_EQ(mode("open"), fs::perms{0644});
  EXPECT_EQ(mode("above/folder"), fs::perms{0700});
  EXPECT_EQ(mode("above"), fs::perms{0777});
}

TEST(Files, a_missing_folder_is_named) {
  const TemporaryFolder folder;
  const fs::path path = folder / "missing/file";
  const std::string message = refusal([&] { write_file_atomically(path, "content"); });
  EXPECT_TRUE(names(message, path.string())) << message;
  EXPECT_TRUE(names(message, "No such file or directory")) << message;
  EXPECT_TRUE(folder.names().empty());
}

TEST(Files, a_folder_in_the_way_stays) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "file");
  const std::string message = refusal([&] { write_file_atomically(folder / "file", "content"); });
  EXPECT_TRUE(names(message, (folder / "file").string())) << message;
  EXPECT_TRUE(names(message, "Is a directory")) << message;
  EXPECT_EQ(folder.names(), std::set<std::string>{"file"});

  const TemporaryFolder other;
  write_file_atomically(other / "file", "old");
  fs::create_directories(other / "file.tmp");
  EXPECT_TRUE(names(refusal([&] { write_file_atomically(other / "file", "new"); }), "Is a directory"));
  EXPECT_EQ(read_text_file(other / "file"), "old");
}

TEST(Files, what_cannot_be_read_is_named) {
  const TemporaryFolder folder;
  const std::string missing = refusal([&] { read_file(folder / "missing"); });
  EXPECT_TRUE(names(missing, (folder / "missing").string())) << missing;
  EXPECT_TRUE(names(missing, "No such file or directory")) << missing;
  EXPECT_TRUE(names(refusal([&] { read_file(folder / ""); }), "is not a file"));
}

// A pipe would keep its reader waiting until somebody writes.
TEST(Files, what_is_no_file_is_refused_at_once) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const fs::path& path : {folder / "pipe", fs::path("/dev/null"), fs::path("/dev/zero"), folder / "."})
    EXPECT_TRUE(names(refusal([&] { read_file(path); }), "is not a file")) << path;
}

TEST(Files, folders_are_made_with_their_parents) {
  const TemporaryFolder folder;
  make_folder(folder / "a/b/c");
  make_folder(folder / "a/b/c");
  EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
  write_file_atomically(folder / "file", "content");
  for (const char* path : {"file", "file/below"}) {
    const std::string message = refusal([&] { make_folder(folder / path); });
    EXPECT_TRUE(names(message, (folder / path).string())) << message;
    EXPECT_TRUE(names(message, "Not a directory")) << message;
  }
}

TEST(FolderLock, keeps_others_out_for_as_long_as_it_lives) {
  TemporaryFolder folder;
  {
    const FolderLock lock(folder.path());
    EXPECT_THROW(FolderLock second(folder.path()), DataError);
  }
  const FolderLock again(folder.path());
}

TEST(LineLog, keeps_its_head_and_grows_by_lines) {
  const TemporaryFolder folder;
  EXPECT_TRUE(rc::check("kept bytes, then the lines",
                        [&](const std::string& old, const std::vector<std::string>& lines) {
                          write_file_atomically(folder / "log", old);
                          const auto keep = *rc::gen::inRange<std::size_t>(0, old.size() + 1);
                          std::string expected = old.substr(0, keep);
                          LineLog log(folder / "log", keep);
                          RC_ASSERT(log.bytes() == keep);
                          RC_ASSERT(read_text_file(folder / "log") == expected);
                          for (const std::string& line : lines) {
                            log.append(line);
                            expected += line + "\n";
                            RC_ASSERT(log.bytes() == expected.size());
                            RC_ASSERT(read_text_file(folder / "log") == expected);
                          }
                          log.sync();
                        }));
}

TEST(LineLog, a_new_one_is_empty) {
  const TemporaryFolder folder;
  const LineLog log(folder / "log", 0);
  EXPECT_EQ(read_text_file(folder / "log"), "");
}

TEST(LineLog, more_than_there_is_cannot_be_kept) {
  const TemporaryFolder folder;
  EXPECT_TRUE(rc::check("refused, and the file untouched", [&](const std::string& old) {
    write_file_atomically(folder / "log", old);
    const auto keep = old.size() + *rc::gen::inRange<std::size_t>(1, 1000);
    const std::string message = refusal([&] { LineLog(folder / "log", keep); });
    RC_ASSERT(names(message, (folder / "log").string()));
    RC_ASSERT(names(message, std::to_string(keep) + " bytes"));
    RC_ASSERT(read_text_file(folder / "log") == old);
  }));
}

TEST(LineLog, a_full_disk_is_named) {
  const TemporaryFolder folder;
  LineLog log(folder / "log", 0);
  log.append("first");
  std::string message;
  {
    const FileSizeLimit limited(10);
    message = refusal([&] { log.append("longer than the limit"); });
  }
  EXPECT_TRUE(names(message, (folder / "log").string())) << message;
  EXPECT_TRUE(names(message, "File too large")) << message;
  EXPECT_EQ(log.bytes(), 6U);  // a restart cuts off what was half-written
  EXPECT_EQ(read_text_file(folder / "log").substr(0, 6), "first\n");
}

TEST(AtomicFile, is_there_once_it_is_committed) {
  const TemporaryFolder folder;
  EXPECT_TRUE(rc::check("the parts, in order, or what was there before",
                        [&](const std::vector<std::string>& parts, bool commit) {
                          write_file_atomically(folder / "file", "old");
                          std::string content;
                          {
                            AtomicFile file(folder / "file");
                            for (const std::string& part : parts) {
                              file.write(std::as_bytes(std::span(part)));
                              content += part;
                            }
                            RC_ASSERT(read_text_file(folder / "file") == "old");
                            if (commit) file.commit();
                          }
                          RC_ASSERT(read_text_file(folder / "file") == (commit ? content : "old"));
                          RC_ASSERT(folder.names() == std::set<std::string>{"file"});
                        }));
}

TEST(AtomicFile, waits_for_a_file_descriptor_if_it_is_told_to) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizers look at memory through a pipe, which takes file descriptors";
#else
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a";
  std::optional<NoFilesLeft> flood(std::in_place);
  const std::string why = refusal([&] { AtomicFile file(path); });
  std::thread writer([&] { write_file_atomically(path, "whole"); });
  std::this_thread::sleep_for(
      std::chrono::milliseconds(100));  // without it, the test could only pass too easily
  flood.reset();
  writer.join();
  EXPECT_NE(why.find("Too many open files"), std::string::npos) << why;
  EXPECT_EQ(read_text_file(path), "whole");
#endif
}

TEST(InputFile, is_read_at_any_place_and_after_its_name_is_gone) {
  const TemporaryFolder folder;
  EXPECT_TRUE(rc::check("a part is that part", [&](const std::string& content) {
    write_file_atomically(folder / "file", content);
    const InputFile file(folder / "file");
    fs::remove(folder / "file");
    RC_ASSERT(file.bytes() == content.size());
    const auto from = *rc::gen::inRange<std::size_t>(0, content.size() + 1);
    std::string part(*rc::gen::inRange<std::size_t>(0, content.size() - from + 1), ' ');
    file.read(from, std::as_writable_bytes(std::span(part)));
    RC_ASSERT(part == content.substr(from, part.size()));
    std::string more(content.size() - from + 1, ' ');
    RC_ASSERT(names(refusal([&] { file.read(from, std::as_writable_bytes(std::span(more))); }),
                    "ends at byte " + std::to_string(content.size())));
  }));
}

TEST(DurableLog, keeps_its_head_and_grows_by_records) {
  const TemporaryFolder folder;
  EXPECT_TRUE(rc::check("kept bytes, then the records", [&](const std::string& old,
                                                            const std::vector<std::string>& records) {
    write_file_atomically(folder / "log", old);
    const auto keep = *rc::gen::inRange<std::size_t>(0, old.size() + 1);
    std::string expected = old.substr(0, keep);
    DurableLog log(folder / "log", keep);
    std::size_t synced = keep;
    for (const std::string& record : records) {
      log.write(std::as_bytes(std::span(record)));
      expected += record;
      if (*rc::gen::arbitrary<bool>()) {
        log.sync();
        synced = expected.size();
      }
      RC_ASSERT(log.bytes() == expected.size());
      RC_ASSERT(log.synced() == synced);
    }
    RC_ASSERT(read_text_file(folder / "log") == expected);
    RC_ASSERT(names(refusal([&] { DurableLog(folder / "log", expected.size() + 1); }), "is shorter than"));
  }));
  EXPECT_TRUE(names(refusal([&] { DurableLog(folder / "missing", 0); }), "No such file"));
}

TEST(DurableLog, a_write_that_fails_halfway_is_taken_back) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "log", "");
  DurableLog log(folder / "log", 0);
  const std::string record = "longer than the limit";
  log.write(std::as_bytes(std::span(record).first(6)));
  std::string message;
  {
    const FileSizeLimit limited(10);
    message = refusal([&] { log.write(std::as_bytes(std::span(record))); });
  }
  EXPECT_TRUE(names(message, (folder / "log").string())) << message;
  EXPECT_EQ(read_text_file(folder / "log"), "longer");
  EXPECT_EQ(log.bytes(), 6U);
  log.require_sound();
  log.write(std::as_bytes(std::span(record)));
  EXPECT_EQ(read_text_file(folder / "log"), "longer" + record);
}

}  // namespace
}  // namespace signvote
