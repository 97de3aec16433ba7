// Programs run without a shell: what goes in comes out, and every way to fail is told apart.
#include "base/process.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "base/text.h"
#include "signvote/error.h"

namespace signvote {
namespace {

const std::filesystem::path kHere = std::filesystem::temp_directory_path();

TEST(Process, input_comes_back_through_cat) {
  EXPECT_TRUE(rc::check("cat gives its input back", [](const std::string& text) {
    const ProcessResult result = run_process({"cat"}, kHere, text);
    RC_ASSERT(result.exit_code == 0);
    RC_ASSERT(result.output == text);
  }));
  const std::string large(5'000'000, 'x');  // far beyond what a pipe holds
  EXPECT_EQ(run_process({"cat"}, kHere, large).output, large);
}

TEST(Process, arguments_are_not_read_by_a_shell) {
  EXPECT_EQ(run_process({"printf", "%s|", "a b", "$HOME", "`id`", "*", ""}, kHere).output,
            "a b|$HOME|`id`|*||");
}

TEST(Process, unread_input_does_no_harm) {
  EXPECT_EQ(run_process({"true"}, kHere, std::string(1'000'000, 'x')).exit_code, 0);
}

TEST(Process, exit_codes_output_and_signals) {
  const ProcessResult failed = run_process({"sh", "-c", "echo out; echo err >&2; exit 7"}, kHere);
  EXPECT_EQ(failed.exit_code, 7);
  EXPECT_EQ(failed.output, "out\nerr\n");
  EXPECT_EQ(run_process({"sh", "-c", "kill -9 $$"}, kHere).exit_code, 128 + SIGKILL);
}

TEST(Process, runs_in_its_folder) { EXPECT_EQ(run_process({"pwd", "-P"}, "/usr").output, "/usr\n"); }

TEST(Process, what_cannot_run_is_an_error) {
  try {
    run_process({"no-such-program-at-all"}, kHere);
    FAIL() << "ran";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("no-such-program-at-all"), std::string::npos) << error.what();
  }
  EXPECT_THROW(run_process({"true"}, kHere / "no-such-folder"), DataError);
}

TEST(Process, many_threads_at_once) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([t, &wrong] {
      for (int i = 0; i < 10; ++i) {
        const std::string text = std::to_string(t) + "/" + std::to_string(i);
        if (run_process({"cat"}, kHere, text).output != text) ++wrong[t];
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(8));
}

TEST(Process, no_control_character_is_left_in_an_error) {
  try {
    throw std::runtime_error("a\x1b[2Jb\x7f\r caf\xc3\xa9\nthe rest");
  } catch (const std::exception&) {
    EXPECT_EQ(describe_current_exception(), "a?[2Jb?? caf\xc3\xa9");
  }
}

TEST(Process, one_line_has_no_line_breaks_and_stays_short) {
  EXPECT_TRUE(rc::check("one_line", [](const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    const std::string line = one_line(text, 20);
    RC_ASSERT(line.find_first_of("\r\n") == std::string::npos);
    RC_ASSERT(line.size() <= 23u);
  }));
  EXPECT_EQ(one_line("\na\r\n\nb\n"), "a; b");
}

}  // namespace
}  // namespace signvote
