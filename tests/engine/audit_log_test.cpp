// The audit log as a file, and the log of refusals that writes to it.
#include "engine/grpc/audit_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "engine/grpc/refusal_log.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::vector<Json> lines_of(const fs::path& file) {
  std::vector<Json> lines;
  std::istringstream text(read_text_file(file));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

const Identity kAnn{"ann", "sha256:00"};

class Audit : public testing::Test {
 protected:
  /// While it lives it is written to; nothing of it is sure to be in the file before its end.
  void open(std::size_t largest = 1 << 20) {
    audit.emplace(
        file, [this](const std::string& line) { said.push_back(line); }, largest);
  }

  TemporaryFolder folder;
  const fs::path file = folder / "audit.log";
  std::vector<std::string> said;
  std::optional<AuditLog> audit;
};

TEST_F(Audit, tells_who_when_and_why) {
  open();
  audit->joined(kAnn, 3, "192.0.2.1:5", "signvote 1");
  audit->left(kAnn, 3);
  audit.reset();
  open();
  audit->refused("192.0.2.2:6", "unknown_worker", "'m\xffl\"' is not on the list");
  audit->more_refused("unknown_worker", 17);
  audit->rounds_lost(kAnn, 3, 7, 4);
  audit.reset();
  const std::vector<Json> lines = lines_of(file);
  ASSERT_EQ(lines.size(), 5U) << "an older one is added to";
  for (const Json& line : lines) EXPECT_EQ(line.at("time").get<std::string>().size(), 24U) << line;
  EXPECT_EQ(lines[0].at("event"), "joined");
  EXPECT_EQ(lines[0].at("name"), "ann");
  EXPECT_EQ(lines[0].at("worker"), 3);
  EXPECT_EQ(lines[0].at("peer"), "192.0.2.1:5");
  EXPECT_EQ(lines[0].at("key"), "sha256:00");
  EXPECT_EQ(lines[0].at("program"), "signvote 1");
  EXPECT_EQ(lines[1].at("event"), "left");
  EXPECT_EQ(lines[2].at("event"), "refused");
  EXPECT_EQ(lines[2].at("reason"), "unknown_worker");
  EXPECT_EQ(lines[3].at("event"), "more_refused");
  EXPECT_EQ(lines[3].at("count"), 17);
  EXPECT_EQ(lines[4].at("event"), "rounds_lost");
  EXPECT_EQ(lines[4].at("held"), 7);
  EXPECT_EQ(lines[4].at("known"), 4);
  EXPECT_TRUE(said.empty());
}

TEST_F(Audit, is_rotated_and_keeps_one_old_file) {
  open(1000);
  for (std::uint32_t i = 0; i < 100; ++i) audit->left(kAnn, i);
  audit.reset();
  EXPECT_EQ(folder.names(), (std::set<std::string>{"audit.log", "audit.log.1"}));
  std::vector<Json> lines = lines_of(folder / "audit.log.1");
  for (Json& line : lines_of(file)) lines.push_back(std::move(line));
  ASSERT_GT(lines.size(), 10U);
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(lines[i].at("worker"), 100 - lines.size() + i) << "the last ones, in order";
  EXPECT_LE(fs::file_size(file), 1000U);
  EXPECT_LE(fs::file_size(folder / "audit.log.1"), 1000U);
}

TEST_F(Audit, that_cannot_be_written_is_told_once) {
  open(1);
  fs::create_directories(folder / "audit.log.1/full");  // in the way
  for (std::uint32_t i = 0; i < 5; ++i) audit->left(kAnn, i);
  audit.reset();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("the audit log is not written"), std::string::npos) << said[0];
}

TEST_F(Audit, goes_on_after_no_file_could_be_opened_for_it) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizers look at memory through a pipe, which takes file descriptors";
#else
  std::promise<void> told;
  audit.emplace(
      file, [&](const std::string&) { told.set_value(); }, 1);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  for (std::uint32_t i = 0; i < 2; ++i) audit->left(kAnn, i);  // the second is for another file
  const auto waited = told.get_future().wait_for(std::chrono::seconds(120));
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_EQ(waited, std::future_status::ready);
  audit->left(kAnn, 2);
  audit.reset();
  ASSERT_EQ(lines_of(file).size(), 1U);
  EXPECT_EQ(lines_of(file)[0].at("worker"), 2);
#endif
}

TEST_F(Audit, has_few_lines_of_many_refusals_and_then_their_number) {
  open();
  std::vector<std::string> log;
  RefusalLog refusals([&](const std::string& line) { log.push_back(line); }, *audit);
  const Refusal unknown{Refusal::Kind::not_allowed, "unknown_worker", "who?"};
  const Refusal silence{Refusal::Kind::not_allowed, "silence", "nothing"};
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 1000; ++i) refusals.refused("192.0.2.1:5", unknown, start);
  refusals.refused("", silence, start);
  refusals.look(start + std::chrono::seconds(59));
  ASSERT_EQ(log.size(), 6U) << "each reason has its own";
  EXPECT_EQ(log[0], "refused 192.0.2.1:5: who? (unknown_worker)");
  EXPECT_EQ(log[5], "refused somebody: nothing (silence)");
  refusals.look(start + std::chrono::seconds(60));
  refusals.look(start + std::chrono::seconds(61));
  ASSERT_EQ(log.size(), 7U);
  EXPECT_EQ(log[6], "refused 995 more within a minute (unknown_worker)");
  for (int i = 0; i < 7; ++i) refusals.refused("192.0.2.1:5", unknown, start + std::chrono::seconds(70));
  refusals.refused("192.0.2.1:5", unknown, start + std::chrono::seconds(200));
  ASSERT_EQ(log.size(), 14U);
  EXPECT_EQ(log[12], "refused 2 more within a minute (unknown_worker)") << "without a look, too";
  audit.reset();
  EXPECT_EQ(lines_of(file).size(), log.size());
}

}  // namespace
}  // namespace signvote
