// What the dashboard shows, as JSON for its page. The run says what happens, in its own thread and cheaply;
// the dashboard's thread looks once a second, and makes of it what pages are sent:
//
//   whole   everything: the run, its history so far, and how it stands
//   news    how it stands, and the rows of the history that are new or changed since the last look
//
// Rows go by their number in the history, so an event that is taken twice does no harm.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/attendance.h"
#include "report/heat_map.h"
#include "report/history.h"

namespace signvote {

/// What stays as it is while the program runs.
struct DashboardRun {
  std::string title;
  std::string about;   // one line for people: the method, the data, the workers
  std::string remark;  // a second line, if there is something to know; may be empty
  std::uint32_t workers = 0;
  std::uint64_t rounds = 0;
  bool learns = false;  // whether the method learns whom to trust
};

/// Bytes on the wire since the run began, of all workers, and what the same messages had been in float32.
struct WireBytes {
  double up = 0;
  double down = 0;
  double float32 = 0;
};

struct DashboardRound {
  std::uint64_t done = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();  // of the round; NaN: there was none
  std::vector<std::uint64_t> votes;                        // by worker: the rounds that it has voted in
  WireBytes wire;
};

struct DashboardTest {
  std::uint64_t round = 0;
  std::optional<double> accuracy;
  std::optional<double> loss;
};

/// A worker as the tally sees it.
struct DashboardWorker {
  double batch = 0;
  std::optional<double> error_rate;
  std::optional<double> weight;
  double say = 0;
  std::string mark;  // as signvote inspect gives it
  bool suspected = false;
};

enum class Presence {
  awaited,  // has not come yet
  present,
  late,  // is connected, but the last round was decided without it, or the open one waits for it
  gone,
};
std::string name_of(Presence presence);

/// What is known of a worker when that is asked.
struct Sighting {
  bool has_come = false;
  bool connected = false;
  bool answered = false;          // in the open round
  bool voted_last_round = false;  // or there was none yet
  bool others_answered = false;   // somebody has, in the open round
  double open_seconds = 0;        // since the open round began
  double usual_seconds = 0;       // that a round takes; 0: not known
};
Presence presence_of(const Sighting& sighting);

class DashboardState {
 public:
  using Time = Attendance::Time;

  /// `attendance` must outlive this. If nobody tells it of workers, they are gone if they did not vote.
  DashboardState(DashboardRun run, const Attendance& attendance);

  // For the run, from any thread.

  /// A row of what came before this program: a test, and the training since the one before it.
  void add_past(const DashboardTest& test, double train_loss, double rounds_per_second);
  /// To be called after every round, and once before the first.
  void add_round(DashboardRound round, Time now);
  void add_test(const DashboardTest& test);
  /// What the tally has learnt so far.
  void look(std::vector<DashboardWorker> workers, bool weighted, HeatMap heat_map);
  /// The run is over: "finished" or "stopped".
  void end(const std::string& phase);

  // For the dashboard.

  /// Looks at everything and returns the news as an event. Rows are only added by this.
  std::string news(Time now);
  std::string whole() const;

 private:
  struct Sent {
    std::uint64_t thinned = 0;
    std::size_t tests = 0;
    std::uint64_t heat_map = 0;
    Time heat_map_at{};
  };

  void add_row(Time now);
  double rounds_per_second() const;
  nlohmann::json run() const;
  nlohmann::json standing(Time now) const;
  nlohmann::json workers(Time now) const;
  nlohmann::json row(std::size_t row) const;
  nlohmann::json test(std::size_t row) const;
  nlohmann::json heat_map() const;

  const DashboardRun run_;
  const Attendance& attendance_;

  mutable std::mutex mutex_;
  History rows_;   // loss, rounds per second, and every worker's weight if the method learns
  History tests_;  // accuracy, loss
  DashboardRound round_;
  std::string phase_ = "starting";
  std::optional<DashboardTest> tested_;  // the last
  std::optional<DashboardTest> best_;
  std::vector<DashboardWorker> seen_;  // by worker; empty: not yet
  bool weighted_ = false;
  HeatMap heat_map_;
  std::uint64_t heat_maps_ = 0;                            // so far
  std::vector<std::uint64_t> voted_round_;                 // by worker, counted from 1; 0: not yet
  std::vector<std::optional<Time>> voted_at_;              // by worker, in this program
  double losses_ = 0;                                      // the sum of those since the last row
  std::uint64_t lost_rounds_ = 0;                          // their number
  std::deque<std::pair<Time, std::uint64_t>> last_looks_;  // and the rounds done then
  std::uint64_t row_round_ = 0;                            // of the last row
  Time last_look_{};
  Sent sent_;
};

}  // namespace signvote
