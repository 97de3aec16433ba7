#include "engine/grpc/allow_list.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/files.h"
#include "signvote/error.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

class AllowLists : public testing::Test {
 protected:
  AllowList list(const std::string& text, std::uint32_t workers = 3) {
    write(text);
    return {file_, workers};
  }
  void write(const std::string& text) { write_file_atomically(file_, text); }

  /// Refused with one line that names the file and says `words`.
  void expect_refused(const std::function<void()>& what, const std::string& words) {
    try {
      what();
      ADD_FAILURE() << "taken, in spite of: " << words;
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(words), std::string::npos) << text;
      EXPECT_NE(text.find(file_.string()), std::string::npos) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }

  TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "allow.toml";
};

TEST_F(AllowLists, without_a_file_have_numbered_names) {
  AllowList list(std::nullopt, 3);
  for (std::uint32_t m = 0; m < 3; ++m) EXPECT_EQ(list.find("worker-" + std::to_string(m)), m);
  for (const char* name : {"", "worker-3", "worker-", "worker-00", "Worker-0", "worker-0 "})
    EXPECT_EQ(list.find(name), std::nullopt) << name;
  EXPECT_FALSE(list.reload());
}

TEST_F(AllowLists, say_who_is_who) {
  const AllowList allowed = list("# ours\nalice = 2\n\"bob.example\" = 0\n\"café\" = 1\n");
  EXPECT_EQ(allowed.find("alice"), 2U);
  EXPECT_EQ(allowed.find("bob.example"), 0U);
  EXPECT_EQ(allowed.find("café"), 1U);
  EXPECT_EQ(allowed.find("bob"), std::nullopt);
  EXPECT_EQ(allowed.find("worker-0"), std::nullopt);
  EXPECT_EQ(list("alice = 2\n").find("alice"), 2U) << "not every place need be given to somebody";
}

TEST_F(AllowLists, may_pin_a_key) {
  const std::string key = "sha256:" + std::string(64, 'a');
  AllowList allowed = list("alice = { worker = 2, key = \"" + key + "\" }\nbob = 0\n");
  EXPECT_EQ(allowed.workers().at("alice"), (AllowedWorker{2, key}));
  EXPECT_EQ(allowed.workers().at("bob"), (AllowedWorker{0, ""}));
  write("bob = 0\n[alice]\nworker = 2\nkey = \"" + key + "\"\n");
  EXPECT_FALSE(allowed.reload()) << "the same in other words";
  write("alice = 2\nbob = 0\n");
  EXPECT_TRUE(allowed.reload()) << "another key, or none, is a change";
}

TEST_F(AllowLists, that_make_no_sense_are_refused_with_their_line) {
  const std::string key = "sha256:" + std::string(64, 'a');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"alice = = 0\n", "allow.toml:1: "},
      {"alice\n", "allow.toml:1: "},
      {"alice = 0\nalice = 1\n", "allow.toml:2: "},
      {"alice = 0\nbob = 3\n", "allow.toml:2: 'bob' must be the number of a worker, from 0 to 2"},
      {"alice = -1\n", "allow.toml:1: 'alice' must be the number of a worker, from 0 to 2"},
      {"alice = 4294967296\n", "from 0 to 2"},
      {"alice = 99999999999999999999\n", "allow.toml:1: "},
      {"alice = \"0\"\n", "from 0 to 2"},
      {"alice = 0.0\n", "from 0 to 2"},
      {"alice = true\n", "from 0 to 2"},
      {"alice = [0]\n", "from 0 to 2"},
      {"bob.example = 0\n", "'bob' must be"},
      {"[workers]\nalice = 0\n", "'workers' must be"},
      {"alice = 1\n\nbob = 1\n", "allow.toml:3: worker 1 is given to two names"},
      {"alice = {}\n", "'alice' must be"},
      {"alice = { worker = 1 }\n", "{ worker = NUMBER, key = \"sha256:...\" }"},
      {"alice = { key = \"" + key + "\" }\n", "'alice' must be"},
      {"alice = { worker = 3, key = \"" + key + "\" }\n", "from 0 to 2"},
      {"alice = { worker = 1, key = \"" + key + "b\" }\n", "'alice' must be"},
      {"alice = { worker = 1, key = \"" + key.substr(7) + "\" }\n", "'alice' must be"},
      {"alice = { worker = 1, key = \"sha256:" + std::string(64, 'A') + "\" }\n", "'alice' must be"},
      {"alice = { worker = 1, key = 7 }\n", "'alice' must be"},
      {"alice = { worker = 1, key = \"" + key + "\", kye = 1 }\n", "'alice' must be"},
      {"alice = { worker = 0, key = \"" + key + "\" }\nbob = 0\n", "worker 0 is given to two names"},
      {"", "names nobody"},
      {"# nobody yet\n", "names nobody"},
      {std::string("\x7f\x45LF\0\1\2", 7), "allow.toml:1: "},
      {"caf\xe9 = 0\n", "allow.toml:1: "},
  };
  for (const auto& [text, words] : cases) expect_refused([&] { list(text); }, words);
}

TEST_F(AllowLists, that_cannot_be_read_are_refused) {
  expect_refused([&] { AllowList(file_, 3); }, "No such file");
  std::filesystem::create_directory(file_);
  expect_refused([&] { AllowList(file_, 3); }, "");
}

TEST_F(AllowLists, are_read_again_when_they_change) {
  AllowList allowed = list("alice = 0\n");
  EXPECT_FALSE(allowed.reload());
  // As quickly one after the other as a file can be written: its time may be the same.
  for (int i = 0; i < 50; ++i) {
    const std::string name = i % 2 == 0 ? "bobby" : "alice";
    write(name + " = 0\n");
    EXPECT_TRUE(allowed.reload()) << i;
    EXPECT_EQ(allowed.find(name), 0U);
    EXPECT_FALSE(allowed.reload()) << i;
  }
  EXPECT_EQ(allowed.find("bobby"), std::nullopt);
  write("# only a remark\nalice = 0\n");
  EXPECT_FALSE(allowed.reload()) << "the same list";
  write("alice = 1\n");
  EXPECT_TRUE(allowed.reload());
  EXPECT_EQ(allowed.find("alice"), 1U);
}

TEST_F(AllowLists, are_kept_while_the_new_one_makes_no_sense) {
  AllowList allowed = list("alice = 0\nbob = 1\n");
  const auto expect_kept = [&] {
    EXPECT_EQ(allowed.find("alice"), 0U);
    EXPECT_EQ(allowed.find("bob"), 1U);
    EXPECT_EQ(allowed.find("carol"), std::nullopt);
  };
  for (const char* text : {"carol = 7\n", "carol = 0\nbob = = 1\n", "", "carol = 0\ndave = 0\n"}) {
    write(text);
    expect_refused([&] { allowed.reload(); }, "");
    EXPECT_FALSE(allowed.reload()) << "told once";
    expect_kept();
  }
  std::filesystem::remove(file_);
  expect_refused([&] { allowed.reload(); }, "No such file");
  EXPECT_FALSE(allowed.reload()) << "told once";
  expect_kept();
  write("alice = 0\nbob = 1\n");
  EXPECT_FALSE(allowed.reload()) << "the list it has";
  write("carol = 0\n");
  EXPECT_TRUE(allowed.reload());
  EXPECT_EQ(allowed.find("alice"), std::nullopt);
  EXPECT_EQ(allowed.find("carol"), 0U);
}

}  // namespace
}  // namespace signvote
