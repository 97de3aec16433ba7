// Progress for people: on a terminal one line that is redrawn, elsewhere one plain line per
// evaluation. Written to stderr, so that stdout stays for results.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace signvote {

struct ProgressState {
  std::string label;            // e.g. "mnist mode 4 it seed 0", may be empty
  std::uint64_t done = 0;       // rounds finished, of
  std::uint64_t total = 0;
  std::optional<double> test_accuracy;  // the last evaluation's, in [0, 1]
  std::optional<double> train_loss;     // the last round's mean
  bool evaluated = false;       // this update brings a new evaluation
};

/// "1h02m", "3m07s", "12s".
std::string format_duration(double seconds);

class Progress {
 public:
  /// `already_done` rounds were finished before (a resumed run): they do not count in the speed.
  Progress(std::FILE* out, std::uint64_t already_done, std::uint64_t total);
  ~Progress();  // ends the terminal's line

  void update(const ProgressState& state);

  /// Rounds per second over the last half a minute or so, 0 before the first round.
  double speed() const { return speed_; }

 private:
  std::FILE* out_;
  bool terminal_;
  std::uint64_t total_;
  double speed_ = 0;
  std::chrono::steady_clock::time_point last_drawn_{};
  std::chrono::steady_clock::time_point last_time_;
  std::uint64_t last_done_;
  bool line_open_ = false;
};

}  // namespace signvote
