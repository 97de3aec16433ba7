#include "report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "base/text.h"

namespace signvote {
namespace {

using Clock = Progress::Clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::max(0.0, std::chrono::duration<double>(to - from).count());
}

bool is_terminal(std::FILE* out) {
  const char* kind = std::getenv("TERM");
  return ::isatty(::fileno(out)) == 1 && !(kind != nullptr && std::string_view(kind) == "dumb");
}

std::size_t terminal_columns(std::FILE* out) {
  winsize size{};
  return ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }  // in UTF-8

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string cut(std::string text, std::size_t columns) {
  std::size_t at = 0;
  for (std::size_t seen = 0; at < text.size(); ++at)
    if (starts_character(text[at]) && seen++ == columns) break;
  text.resize(at);
  return text;
}

std::string bar(double share, std::size_t columns) {
  const auto halves = static_cast<std::size_t>(share * 2 * static_cast<double>(columns));
  std::string text;
  for (std::size_t i = 0; i < columns; ++i)
    text += 2 * i + 2 <= halves ? "━" : 2 * i + 1 == halves ? "╸" : "─";
  return text;
}

bool is_last(const ProgressState& state) {
  return state.total > 0 && state.done >= state.total && state.later == 0;
}

}  // namespace

std::string format_duration(double seconds) {
  // More than a thousand days are shown as a thousand days, and NaN as 0.
  const auto whole = seconds > 0 ? static_cast<std::uint64_t>(std::lround(std::min(seconds, 86400e3))) : 0;
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

Progress::Progress(std::FILE* out, Clock::time_point now)
    : out_(out), terminal_(is_terminal(out)), started_(now), last_time_(now), last_evaluation_(now) {}

Progress::~Progress() {
  if (!terminal_ || !last_shown_) return;
  std::fputc('\n', out_);
  std::fflush(out_);
}

void Progress::measure(const ProgressState& state, Clock::time_point now) {
  const double passed = seconds_between(last_time_, now);
  const double keep = std::exp(-passed / window_);
  seconds_ = seconds_ * keep + passed;
  if (state.label != last_label_) last_done_.reset();
  last_label_ = state.label;
  const std::uint64_t made = last_done_ ? state.done - std::min(state.done, *last_done_) : 1;
  rounds_ = rounds_ * keep + static_cast<double>(made);
  last_time_ = now;
  last_done_ = state.done;
  if (state.evaluated) {
    window_ = std::max(30.0, 3 * seconds_between(last_evaluation_, now));
    last_evaluation_ = now;
  }
}

void Progress::update(const ProgressState& state, Clock::time_point now) {
  measure(state, now);
  const bool due = terminal_ ? last_shown_ && seconds_between(*last_shown_, now) >= 0.1 : state.evaluated;
  if (last_shown_ && !due && !(is_last(state) && last_shown_done_ != state.done)) return;
  show(state, now);
  last_shown_ = now;
  last_shown_done_ = state.done;
}

void Progress::note(const std::string& line) {
  if (terminal_) {
    std::fputs("\r\x1b[K", out_);
    last_shown_.reset();  // the line was overwritten, so draw the progress again
  }
  std::fputs((without_controls(line) + "\n").c_str(), out_);
  std::fflush(out_);
}

void Progress::show(const ProgressState& state, Clock::time_point now) {
  const std::uint64_t total = state.total;
  std::string head = state.label.empty() ? "" : state.label + "  ";
  std::string tail;
  const auto add = [&tail](const std::string& text) { tail += "  " + text; };
  double share = 0;
  if (total > 0) {
    share = static_cast<double>(std::min(state.done, total)) / static_cast<double>(total);
    head += fmt::format("round {:>{}}/{}", state.done, std::to_string(total).size(), total);
    add(fmt::format("{:3} %", static_cast<int>(100 * share + 1e-9)));
  } else {
    head += fmt::format("round {}", state.done);
  }
  if (state.test_accuracy && std::isfinite(*state.test_accuracy))
    add(fmt::format("accuracy {:.2f} %", 100 * *state.test_accuracy));
  const auto add_loss = [&add](const char* name, double loss) {
    add(!std::isfinite(loss) ? fmt::format("{} diverged", name)
        : loss < 1000        ? fmt::format("{} {:.3f}", name, loss)
                             : fmt::format("{} {:.3g}", name, loss));
  };
  if (state.test_loss) add_loss("test loss", *state.test_loss);
  if (state.train_loss) add_loss("loss", *state.train_loss);
  if (speed() > 1e-6)  // not if it stands still
    add(speed() >= 1 ? fmt::format("{:.1f} rounds/s", speed()) : fmt::format("{:.1f} s/round", 1 / speed()));
  if (is_last(state))
    add("took " + format_duration(seconds_between(started_, now)));
  else if (total > 0 && speed() > 1e-6)
    add(format_duration(static_cast<double>(total - std::min(state.done, total) + state.later) / speed()) +
        " left");

  std::string line;
  if (terminal_) {
    const std::size_t columns = terminal_columns(out_) - 1;  // because some terminals wrap in the last column
    const std::size_t used = columns_of(head) + columns_of(tail) + 2;
    const std::size_t room = std::min<std::size_t>(columns - std::min(columns, used), 30);
    if (total > 0 && room >= 4) head += "  " + bar(share, room);
    line = fmt::format("\r{}\x1b[K", cut(head + tail, columns));  // clears the rest of the old line
  } else {
    line = head + tail + "\n";
  }
  std::fputs(line.c_str(), out_);
  std::fflush(out_);
}

}  // namespace signvote
