// Progress over a clock of our own: into memory for the plain form, into a pseudo-terminal for the other.
#include "report/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <rapidcheck.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace signvote {
namespace {

using Clock = Progress::Clock;

class Time {
 public:
  Clock::time_point now() const { return now_; }
  Clock::time_point after(double seconds) {
    return now_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

 private:
  Clock::time_point now_{std::chrono::hours(1)};
};

class Memory {
 public:
  Memory() : file_(::open_memstream(&data_, &size_)) {}
  ~Memory() {
    std::fclose(file_);
    std::free(data_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    return {data_, size_};
  }

 private:
  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* file_;
};

class Terminal {
 public:
  explicit Terminal(unsigned short columns) {
    ::setenv("TERM", "xterm", 1);
    termios raw{};
    ::cfmakeraw(&raw);
    const winsize size{24, columns, 0, 0};
    int slave = -1;
    if (::openpty(&master_, &slave, nullptr, &raw, &size) != 0)
      throw std::runtime_error("no pseudo-terminal");
    ::fcntl(master_, F_SETFL, O_NONBLOCK);
    file_ = ::fdopen(slave, "w");
  }
  ~Terminal() {
    std::fclose(file_);
    ::close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  std::FILE* file() { return file_; }

  // What was written since the last call; call it often, for a terminal that is full blocks.
  std::string text() {
    std::string text;
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::read(master_, buffer.data(), buffer.size())) > 0;)
      text.append(buffer.data(), static_cast<std::size_t>(got));
    return text;
  }

 private:
  int master_ = -1;
  std::FILE* file_ = nullptr;
};

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (const char byte : text) columns += (static_cast<unsigned char>(byte) & 0xC0) != 0x80 ? 1 : 0;
  return columns;
}

// Anything a run could report, and what no run should.
rc::Gen<std::optional<double>> any_number() {
  return rc::gen::element<std::optional<double>>(std::nullopt, 0.0, 0.5, 1.0, 2.3, 1e9, 1e300, -1.0,
                                                 std::numeric_limits<double>::quiet_NaN(),
                                                 std::numeric_limits<double>::infinity());
}

std::vector<ProgressState> any_run() {
  const auto total = *rc::gen::element<std::uint64_t>(0, 1, 2, 7, 300, UINT64_MAX);
  const auto label = *rc::gen::element<std::string>("", "mode 4 it", "mode 4: 14 × 4, 1 × 904, seed 0");
  auto done = *rc::gen::element<std::uint64_t>(0, 1, 5, 299, UINT64_MAX - 100);
  std::vector<ProgressState> run(*rc::gen::inRange<std::size_t>(0, 20));
  for (ProgressState& state : run) {
    done += *rc::gen::inRange<std::uint64_t>(0, 3);
    state = {label, done, total, *any_number(), *any_number(), *rc::gen::arbitrary<bool>()};
  }
  return run;
}

double any_pause() { return *rc::gen::element(0.0, 1e-9, 0.001, 0.05, 0.2, 3.0, 600.0, 1e7, -1.0); }

void expect_only_numbers(const std::string& text) {
  RC_ASSERT(text.find("nan") == std::string::npos);
  RC_ASSERT(text.find("inf") == std::string::npos);
  RC_ASSERT(text.find("-1 %") == std::string::npos);
}

TEST(Progress, plain_output_is_a_line_per_evaluation) {
  EXPECT_TRUE(rc::check("a line for the first and last round and every evaluation, no control codes", [] {
    Memory memory;
    Time time;
    std::size_t lines = 0;
    {
      Progress progress(memory.file(), time.now());
      std::optional<std::uint64_t> shown;
      for (const ProgressState& state : any_run()) {
        progress.update(state, time.after(any_pause()));
        const bool ended = state.total > 0 && state.done >= state.total && shown != state.done;
        if (!shown || state.evaluated || ended) {
          ++lines;
          shown = state.done;
        }
        RC_ASSERT(count(memory.text(), "\n") == lines);
        RC_ASSERT(std::isfinite(progress.speed()));
      }
    }
    const std::string text = memory.text();
    RC_ASSERT(count(text, "\n") == lines);
    RC_ASSERT(text.find('\r') == std::string::npos && text.find('\x1b') == std::string::npos);
    expect_only_numbers(text);
  }));
}

TEST(Progress, terminal_output_fits) {
  EXPECT_TRUE(
      rc::check("an evaluation stays as a line; the line below it is redrawn, and ends once, at the end", [] {
        const auto columns = *rc::gen::inRange<unsigned short>(0, 200);
        Terminal terminal(columns);
        Time time;
        bool drawn = false;
        const auto expect_line = [&](const std::string& text) {
          RC_ASSERT(text.front() == '\r' && text.ends_with("\x1b[K"));
          const std::string shown = text.substr(1, text.size() - 4);
          RC_ASSERT(columns_of(shown) < (columns == 0 ? 80U : columns));
          RC_ASSERT(shown.find_first_of("\r\n\x1b") == std::string::npos);
          expect_only_numbers(shown);
        };
        {
          Progress progress(terminal.file(), time.now());
          for (const ProgressState& state : any_run()) {
            progress.update(state, time.after(any_pause()));
            std::string text = terminal.text();
            RC_ASSERT(count(text, "\n") == (state.evaluated ? 1U : 0U));
            RC_ASSERT((drawn && !state.evaluated) || !text.empty());
            drawn = true;
            if (text.empty()) continue;
            if (state.evaluated) {
              expect_line(text.substr(0, text.find('\n')));
              text.erase(0, text.find('\n') + 1);
            }
            expect_line(text);
          }
        }
        RC_ASSERT(terminal.text() == (drawn ? "\n" : ""));
      }));
}

TEST(Progress, terminal_is_redrawn_ten_times_a_second) {
  Terminal terminal(120);
  Time time;
  Progress progress(terminal.file(), time.now());
  std::size_t redraws = 0;
  for (std::uint64_t round = 1; round <= 2000; ++round) {
    progress.update({"", round, 5000, 0.5, 0.5, false}, time.after(0.001));
    redraws += count(terminal.text(), "\r");
  }
  EXPECT_GE(redraws, 18U);
  EXPECT_LE(redraws, 21U);
}

std::string bar_of(std::size_t columns) {
  std::string bar;
  for (std::size_t i = 0; i < columns; ++i) bar += "━";
  return bar;
}

// The lines a terminal shows in the end, and the one its cursor is on.
std::vector<std::string> screen(std::string_view text) {
  std::vector<std::string> lines(1);
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string& line = lines.back();
    if (text[i] == '\n' || text[i] == '\r') {
      if (text[i] == '\n') lines.emplace_back();
      column = 0;
    } else if (text.substr(i, 3) == "\x1b[K") {
      line.resize(column);
      i += 2;
    } else {
      line.replace(column++, 1, 1, text[i]);
    }
  }
  return lines;
}

TEST(Progress, notes_are_lines_of_their_own) {
  EXPECT_TRUE(rc::check("notes stay whole, progress goes on below them, and no line is lost or empty", [] {
    const bool plain = *rc::gen::arbitrary<bool>();
    Memory memory;
    Terminal terminal(100);
    Time time;
    std::string text;
    std::vector<std::string> notes;
    {
      Progress progress(plain ? memory.file() : terminal.file(), time.now());
      std::uint64_t done = 0;
      for (const bool note : *rc::gen::arbitrary<std::vector<bool>>()) {
        if (note) {
          notes.push_back("note " + std::string(*rc::gen::inRange(0, 90), 'x'));
          progress.note(notes.back());
        } else {
          progress.update({"", ++done, 1000, 0.5, 0.5, false}, time.after(0.001));
        }
        text += terminal.text();
        if (!plain && done > 0) RC_ASSERT(screen(text).back().empty() == note);
      }
    }
    text += plain ? memory.text() : terminal.text();
    if (plain) RC_ASSERT(text.find_first_of("\r\x1b") == std::string::npos);
    std::vector<std::string> lines = screen(text);
    RC_ASSERT(lines.back().empty());
    lines.pop_back();
    std::erase_if(lines, [](const std::string& line) { return line.starts_with("round "); });
    RC_ASSERT(lines == notes);
    if (plain) RC_ASSERT(count(text, "round ") <= 1U);
  }));
}

TEST(Progress, a_dumb_terminal_gets_plain_lines) {
  Terminal terminal(120);
  ::setenv("TERM", "dumb", 1);
  Progress(terminal.file()).update({"", 1, 2, 0.5, 0.5, true});
  EXPECT_EQ(terminal.text().find_first_of("\r\x1b"), std::string::npos);
}

TEST(Progress, every_evaluation_stays_above_the_bar) {
  Terminal terminal(100);
  Time time;
  Progress progress(terminal.file(), time.now());
  std::string text;
  for (std::uint64_t round = 1; round <= 4; ++round) {
    progress.update({"", round, 4, 0.2 * static_cast<double>(round), 0.5, round % 2 == 0}, time.after(1));
    text += terminal.text();
  }
  EXPECT_EQ(screen(text), (std::vector<std::string>{
                              "round 2/4  accuracy 40.00 %  loss 0.500",
                              "round 4/4  accuracy 80.00 %  loss 0.500",
                              "round 4/4  " + bar_of(30) + "  100 %  loss 0.500  1.0 rounds/s  took 4s",
                          }));
}

TEST(Progress, the_bar_keeps_its_width) {
  for (const unsigned short columns : {80, 100, 120}) {
    Terminal terminal(columns);
    Time time;
    Progress progress(terminal.file(), time.now());
    std::set<std::size_t> widths;
    std::uint64_t round = 0;
    for (const double seconds : {0.0012, 0.3, 9.0, 77.0, 0.5})
      for (const double loss : {0.001, 2.5, 12.345}) {
        progress.update({"", ++round, 1000, {}, loss, false}, time.after(seconds + 0.1));
        const std::string text = terminal.text();
        widths.insert(count(text, "━") + count(text, "╸") + count(text, "─"));
      }
    EXPECT_EQ(widths.size(), 1U) << columns;
    EXPECT_GT(*widths.begin(), 4U) << columns;
  }
}

TEST(Progress, the_bar_shrinks_first) {
  const auto shown = [](unsigned short columns) {
    Terminal terminal(columns);
    Time time;
    Progress progress(terminal.file(), time.now());
    progress.update({"mode 4 it", 120, 300, 0.9123, 0.312, false}, time.after(0.2));
    const std::string text = terminal.text();
    return text.substr(1, text.size() - 4);
  };
  const std::string tail = "   40 %  loss 0.312  5.0 rounds/s  36s left";
  EXPECT_EQ(shown(200), "mode 4 it  round 120/300  ━━━━━━━━━━━━──────────────────" + tail);
  EXPECT_EQ(shown(88), "mode 4 it  round 120/300  ━━━━╸───────" + tail);
  EXPECT_EQ(shown(75), "mode 4 it  round 120/300" + tail);
  EXPECT_EQ(shown(20), "mode 4 it  round 12");
}

TEST(Progress, plain_lines) {
  Memory memory;
  Time time;
  {
    Progress progress(memory.file(), time.now());
    progress.update({"mode 4 it", 1, 3, {}, 2.3026, false}, time.after(4));
    progress.update({"mode 4 it", 2, 3, 0.5, NAN, true}, time.after(4));
    progress.update({"mode 4 it", 3, 3, 0.9, 12345.0, false}, time.after(4));
    progress.update({"", 4, 0, 0.9, 0.1, true}, time.after(4));
  }
  EXPECT_EQ(memory.text(),
            "mode 4 it  round 1/3   33 %  loss 2.303  4.0 s/round  8s left\n"
            "mode 4 it  round 2/3   66 %  accuracy 50.00 %  loss diverged  4.0 s/round  4s left\n"
            "mode 4 it  round 3/3  100 %  accuracy 90.00 %  loss 1.23e+04  4.0 s/round  took 12s\n"
            "round 4  accuracy 90.00 %  loss 0.100  4.0 s/round\n");
}

TEST(Progress, speed_of_a_steady_run_is_exact_from_the_first_round) {
  EXPECT_TRUE(rc::check("speed is one over the time a round takes, wherever the run was resumed", [] {
    Memory memory;
    Time time;
    Progress progress(memory.file(), time.now());
    RC_ASSERT(progress.speed() == 0);
    const double seconds = *rc::gen::inRange(1, 100'000) / 1000.0;
    const auto before = *rc::gen::inRange<std::uint64_t>(0, 10'000);
    for (std::uint64_t round = 1; round <= 50; ++round) {
      progress.update({"", before + round, 20'000, {}, {}, round % 7 == 0}, time.after(seconds));
      RC_ASSERT(std::abs(progress.speed() * seconds - 1) < 1e-6);
    }
  }));
}

TEST(Progress, speed_counts_the_pauses_of_evaluations_evenly) {
  EXPECT_TRUE(rc::check("in the fourth cycle and later, speed stays near the average with pauses", [] {
    Memory memory;
    Time time;
    Progress progress(memory.file(), time.now());
    const double seconds = *rc::gen::inRange(1, 1000) / 100.0;
    const double pause = seconds * *rc::gen::inRange(0, 100);
    const double average = 100 / (100 * seconds + pause);
    for (std::uint64_t round = 1; round <= 1000; ++round) {
      const bool evaluated = round % 100 == 0;
      progress.update({"", round, 1000, {}, {}, evaluated}, time.after(seconds + (evaluated ? pause : 0)));
      if (round > 400) RC_ASSERT(std::abs(progress.speed() / average - 1) < 0.35);
    }
  }));
}

TEST(Progress, speed_forgets_a_former_pace) {
  Memory memory;
  Time time;
  Progress progress(memory.file(), time.now());
  std::uint64_t round = 0;
  while (round < 100) progress.update({"", ++round, 0, {}, {}, false}, time.after(10));
  while (round < 1300) progress.update({"", ++round, 0, {}, {}, false}, time.after(0.1));
  EXPECT_NEAR(progress.speed(), 10, 0.4);
}

TEST(FormatDuration, examples) {
  EXPECT_EQ(format_duration(0), "0s");
  EXPECT_EQ(format_duration(12.4), "12s");
  EXPECT_EQ(format_duration(59.6), "1m00s");
  EXPECT_EQ(format_duration(187), "3m07s");
  EXPECT_EQ(format_duration(3599.7), "1h00m");
  EXPECT_EQ(format_duration(3720), "1h02m");
  EXPECT_EQ(format_duration(90'000), "25h00m");
  EXPECT_EQ(format_duration(-5), "0s");
  EXPECT_EQ(format_duration(NAN), "0s");
  EXPECT_EQ(format_duration(INFINITY), "24000h00m");
}

}  // namespace
}  // namespace signvote
