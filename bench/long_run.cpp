// The dashboard of a run that has gone on for long: 64 workers and 100,000 rounds by default, ten rounds a
// second from then on. Prints where it is, and ends with its stdin.
//
//   long_run [WORKERS [ROUNDS]]
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "report/dashboard.h"

namespace {

using namespace signvote;
using namespace std::chrono_literals;

class LongRun {
 public:
  explicit LongRun(std::uint32_t workers) : workers_(workers), votes_(workers) {}

  void add_rounds(DashboardState& state, std::uint64_t count, DashboardState::Time now) {
    for (; count > 0; --count) {
      ++rounds_;
      for (std::uint64_t& votes : votes_) ++votes;
      const auto done = static_cast<double>(rounds_);
      state.add_round({rounds_, wave(0), votes_, {1e5 * done, 1e5 * done, 64e5 * done}}, now);
      if (rounds_ % 25 == 0) state.add_test({rounds_, 0.9 + 0.1 * wave(1), wave(2)});
    }
  }

  void look(DashboardState& state) const {
    std::vector<DashboardWorker> seen;
    HeatMap map;
    map.title = "How often each two workers agreed";
    map.remark = map.row_title = map.column_title = map.value_title = "worker";
    for (std::uint32_t m = 0; m < workers_; ++m) {
      const double weight = wave(m + 3.0);
      seen.push_back({64, 1 / (1 + std::exp(weight)), weight, 1.0 / workers_, "", m == 0});
      map.rows.push_back(fmt::format("{}", m));
      for (std::uint32_t other = 0; other < workers_; ++other) map.values.push_back(wave(m + 0.1 * other));
    }
    map.columns = map.rows;
    state.look(std::move(seen), true, std::move(map));
  }

  std::uint64_t rounds() const { return rounds_; }

 private:
  /// In (0, 1), another for every `which`, and always a little on the move.
  double wave(double which) const {
    return 0.5 + 0.4 * std::sin(which) + 0.05 * std::sin(7 * which + 3e-3 * static_cast<double>(rounds_));
  }

  std::uint32_t workers_;
  std::vector<std::uint64_t> votes_;
  std::uint64_t rounds_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const auto workers = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 64);
  const auto rounds = static_cast<std::uint64_t>(argc > 2 ? std::atoll(argv[2]) : 100'000);
  Attendance attendance;
  DashboardState state({"long", "a long run", "", workers, 10 * rounds, true}, attendance);
  LongRun run(workers);
  auto now = std::chrono::system_clock::now() - std::chrono::seconds(rounds / 10);
  while (run.rounds() < rounds) {
    run.add_rounds(state, 10, now);
    run.look(state);
    state.news(now);
    now += 1s;
  }
  DashboardOptions options;
  options.folder = std::filesystem::temp_directory_path();
  const Dashboard dashboard(options, state);
  fmt::print("{}\n", dashboard.address());
  std::fflush(stdout);
  std::jthread going_on([&](const std::stop_token& stop) {
    for (int tenth = 0; !stop.stop_requested(); ++tenth) {
      run.add_rounds(state, 1, std::chrono::system_clock::now());
      if (tenth % 10 == 0) run.look(state);
      std::this_thread::sleep_for(100ms);
    }
  });
  while (std::getchar() != EOF) {
  }
}
