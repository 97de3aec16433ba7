// A run on the dashboard: tells it of every round, and now and then what the tally has learnt.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "report/attendance.h"
#include "report/dashboard.h"
#include "run/config.h"
#include "run/inspect.h"
#include "run/train.h"

namespace signvote {

class RunDashboard {
 public:
  /// Listens. `config` must outlive this.
  RunDashboard(const TrainConfig& config, DashboardOptions options);

  /// Hooks that tell the dashboard of the run. This must outlive them.
  void watch(TrainHooks& hooks);
  /// For those who hear of a server's workers.
  Attendance& attendance() { return attendance_; }
  void end(const TrainResult& result) { state_.end(result.finished ? "finished" : "stopped"); }
  /// One line that says where it is.
  std::string invitation() const;

 private:
  void see(const RunView& run);
  void look(const RunView& run);
  bool is_time_to_look() const;

  const TrainConfig& config_;
  Attendance attendance_;
  DashboardState state_;
  Dashboard dashboard_;
  std::optional<Layers> layers_;  // those of the tally's coordinates; none: not asked for yet
  std::optional<Clock::time_point> looked_at_;
  double look_seconds_ = 0;  // that the last look took
  double processor_seconds_then_ = 0;
};

}  // namespace signvote
