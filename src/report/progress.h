// Progress for people: a plain line per evaluation, and on a terminal a line with a bar below them, which is
// redrawn. It goes to stderr, so that stdout has only results.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace signvote {

struct ProgressState {
  std::string label;                    // e.g. "mnist mode 4 it seed 0", may be empty
  std::uint64_t done = 0;               // rounds finished
  std::uint64_t total = 0;              // of so many; 0: unknown, so no bar and no time left
  std::optional<double> test_accuracy;  // the last evaluation's, in [0, 1]
  std::optional<double> train_loss;     // the last round's mean
  bool evaluated = false;               // this update has a new evaluation
  std::optional<double> test_loss{};    // the last evaluation's, if there is no accuracy
  std::uint64_t later = 0;              // rounds of other runs that follow this one, for the time left
};

/// "1h02m", "3m07s", "12s".
std::string format_duration(double seconds);

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Progress(std::FILE* out, Clock::time_point now = Clock::now());
  ~Progress();  // ends the terminal's line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// To be called after every round. The first call counts as one round, whatever `done` says, because a
  /// resumed run made the others earlier; so does the first of another run, which has another label. The
  /// first and the last round and all evaluations are always shown, others at most ten times a second, and
  /// only on a terminal.
  void update(const ProgressState& state, Clock::time_point now = Clock::now());

  /// Prints a line, such as a warning, without mixing it with the progress.
  void note(const std::string& line);

  /// Rounds per second over about the last half minute, or over the last few evaluations if these took
  /// longer, because the time left includes their pauses. 0 before the first round.
  double speed() const { return seconds_ > 0 ? rounds_ / seconds_ : 0; }

 private:
  void measure(const ProgressState& state, Clock::time_point now);
  void print(const std::string& text);
  std::string pace(const ProgressState& state, Clock::time_point now) const;
  std::string drawn(const ProgressState& state, Clock::time_point now) const;

  std::FILE* out_;
  bool terminal_;
  Clock::time_point started_;
  Clock::time_point last_time_;
  Clock::time_point last_evaluation_;
  std::optional<Clock::time_point> last_shown_;
  std::optional<std::uint64_t> last_done_;
  std::string last_label_;
  std::uint64_t last_shown_done_ = 0;
  double rounds_ = 0;  // both are weighted by exp(-age / window), so their ratio is right from the start
  double seconds_ = 0;
  double window_ = 30;
};

}  // namespace signvote
