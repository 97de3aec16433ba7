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

double share(const ProgressState& state) {
  return static_cast<double>(std::min(state.done, state.total)) / static_cast<double>(state.total);
}

std::string head(const ProgressState& state) {
  const std::string label = state.label.empty() ? "" : state.label + "  ";
  if (state.total == 0) return fmt::format("{}round {}", label, state.done);
  return fmt::format("{}round {:>{}}/{}", label, state.done, std::to_string(state.total).size(), state.total);
}

std::string percent(const ProgressState& state) {
  return state.total > 0 ? fmt::format("  {:3} %", static_cast<int>(100 * share(state) + 1e-9)) : "";
}

std::string loss_text(const char* name, std::optional<double> loss) {
  if (!loss) return "";
  if (!std::isfinite(*loss)) return fmt::format("  {} diverged", name);
  return *loss < 1000 ? fmt::format("  {} {:.3f}", name, *loss) : fmt::format("  {} {:.3g}", name, *loss);
}

std::string train_loss(const ProgressState& state) { return loss_text("loss", state.train_loss); }

std::string results(const ProgressState& state) {
  const bool tested = state.test_accuracy && std::isfinite(*state.test_accuracy);
  return (tested ? fmt::format("  accuracy {:.2f} %", 100 * *state.test_accuracy) : "") +
         loss_text("test loss", state.test_loss) + train_loss(state);
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
  if (terminal_ && state.evaluated) {
    print("\r" + cut(head(state) + results(state), terminal_columns(out_) - 1) + "\x1b[K\n");
    last_shown_.reset();  // the progress is drawn again below it
  }
  const bool due = terminal_ ? last_shown_ && seconds_between(*last_shown_, now) >= 0.1 : state.evaluated;
  if (last_shown_ && !due && !(is_last(state) && last_shown_done_ != state.done)) return;
  print(terminal_ ? drawn(state, now)
                  : head(state) + percent(state) + results(state) + pace(state, now) + "\n");
  last_shown_ = now;
  last_shown_done_ = state.done;
}

void Progress::note(const std::string& line) {
  if (terminal_) last_shown_.reset();  // the progress is drawn again below it
  print((terminal_ ? "\r\x1b[K" : "") + without_controls(line) + "\n");
}

void Progress::print(const std::string& text) {
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
}

std::string Progress::pace(const ProgressState& state, Clock::time_point now) const {
  std::string text;
  if (speed() > 1e-6)  // not if it stands still
    text = speed() >= 1 ? fmt::format("  {:.1f} rounds/s", speed())
                        : fmt::format("  {:.1f} s/round", 1 / speed());
  if (is_last(state)) return text + "  took " + format_duration(seconds_between(started_, now));
  if (state.total > 0 && speed() > 1e-6)
    text +=
        "  " +
        format_duration(static_cast<double>(state.total - std::min(state.done, state.total) + state.later) /
                        speed()) +
        " left";
  return text;
}

std::string Progress::drawn(const ProgressState& state, Clock::time_point now) const {
  const std::size_t columns = terminal_columns(out_) - 1;  // because some terminals wrap in the last column
  std::string line = head(state);
  const std::string tail = percent(state) + train_loss(state) + pace(state, now);
  // Room for the longest of usual tails, so that the bar keeps its width while numbers come and go.
  constexpr std::size_t kTail = std::string_view("  100 %  loss 12.345  123.4 rounds/s  12h34m left").size();
  const std::size_t used = columns_of(line) + std::max(columns_of(tail), kTail) + 2;
  const std::size_t room = std::min<std::size_t>(columns - std::min(columns, used), 30);
  if (state.total > 0 && room >= 4) line += "  " + bar(share(state), room);
  return "\r" + cut(line + tail, columns) + "\x1b[K";  // clears the rest of the old line
}

}  // namespace signvote
