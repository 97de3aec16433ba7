#include "run/dashboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <utility>

#include "base/text.h"
#include "run/run_files.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

// A look at the tally is taken by the thread that trains, between two rounds. With `it` and `shrink` it is a
// pass over all counts, so looks are left out until they take no more than a two-hundredth of the processor
// time that this process has had; of a server's, which mostly waits, or of the time that has passed.
constexpr double kLeastSecondsBetweenLooks = 1;
constexpr double kTimesALook = 200;

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

DashboardRun describe(const TrainConfig& config) {
  DashboardRun run;
  const fs::path folder = fs::path(config.out).lexically_normal();
  run.title = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  run.about = fmt::format("{}{}, {}", config.method_title(),
                          config.has_network() ? fmt::format(" on {}", config.dataset) : "",
                          counted(*config.workers, "worker"));
  run.workers = *config.workers;
  run.rounds = config.rounds;
  run.learns = counts_by_coordinate(config) || config.tally_method() == Method::agree;
  if (config.full_precision())
    run.remark = "Plain SGD, to compare with: workers send floats, and there is no vote.";
  else if (counts_by_coordinate(config) && config.engine == "mpi")
    run.remark = "Error rates are those on rank 0's coordinates.";
  return run;
}

DashboardTest test_of(const MetricsRow& row) { return {row.round, row.test_accuracy, row.test_loss}; }

/// What the files of a run say of the rounds before this program.
void add_past(const fs::path& folder, DashboardState& state) {
  MetricsRow before;
  for (const MetricsRow& row : read_metrics(folder)) {
    const auto rounds = static_cast<double>(row.round) - static_cast<double>(before.round);
    state.add_past(test_of(row), row.train_loss.value_or(std::numeric_limits<double>::quiet_NaN()),
                   row.seconds > before.seconds ? rounds / (row.seconds - before.seconds) : 0);
    before = row;
  }
}

/// A verdict is counted once, and goes to every worker.
WireBytes wire_of(const TrainConfig& config, const Traffic& sent, std::size_t parameters) {
  const auto model = static_cast<double>(sizeof(float) * parameters);
  const auto verdicts = static_cast<double>(*config.workers);
  WireBytes wire;
  wire.float32 = model * (static_cast<double>(sent.ballots) + verdicts * static_cast<double>(sent.verdicts));
  wire.up = config.full_precision() ? model * static_cast<double>(sent.ballots)
                                    : static_cast<double>(sent.ballot_bytes);
  wire.down =
      config.full_precision() ? wire.float32 - wire.up : verdicts * static_cast<double>(sent.verdict_bytes);
  return wire;
}

/// The layers of a tally that has only a part of the coordinates.
Layers layers_between(const Layers& all, std::uint64_t begin, std::uint64_t end) {
  Layers some;
  std::uint64_t at = 0;
  for (const auto& [name, size] : all) {
    const std::uint64_t from = std::max<std::uint64_t>(at, begin);
    at += size;
    if (const std::uint64_t to = std::min<std::uint64_t>(at, end); from < to)
      some.emplace_back(name, to - from);
  }
  return some;
}

}  // namespace

RunDashboard::RunDashboard(const TrainConfig& config, DashboardOptions options)
    : config_(config), state_(describe(config), attendance_), dashboard_(options, state_) {}

std::string RunDashboard::invitation() const {
  return fmt::format("dashboard at {}{}", dashboard_.address(),
                     dashboard_.token().empty()
                         ? ""
                         : fmt::format("; the link with its token is in {}",
                                       (fs::path(config_.out) / kDashboardLink).string()));
}

void RunDashboard::watch(TrainHooks& hooks) {
  hooks.started = [this, before = hooks.started] {
    add_past(config_.out, state_);
    dashboard_.write_link();
    if (before) before();
  };
  hooks.tested = [this, before = hooks.tested](const MetricsRow& row, const Tally& tally) {
    state_.add_test(test_of(row));
    if (before) before(row, tally);
  };
  hooks.watch = [this](const RunView& run) { see(run); };
}

void RunDashboard::see(const RunView& run) {
  const auto now = std::chrono::system_clock::now();
  state_.add_round({run.progress.rounds, run.train_loss, run.progress.votes,
                    wire_of(config_, run.progress.traffic, run.parameters)},
                   now);
  if (!is_time_to_look() && run.progress.rounds != config_.rounds) return;
  const Clock::time_point start = Clock::now();
  look(run);
  look_seconds_ = seconds_since(start);
  looked_at_ = Clock::now();
  processor_seconds_then_ = processor_seconds();
}

bool RunDashboard::is_time_to_look() const {
  if (!looked_at_) return true;
  const double passed = seconds_since(*looked_at_);
  const double used = processor_seconds() - processor_seconds_then_;
  // A server is no burden to those who compute, its workers.
  const double worth = config_.engine == "grpc" ? std::max(passed, used) : used;
  return passed >= kLeastSecondsBetweenLooks && worth >= kTimesALook * look_seconds_;
}

void RunDashboard::look(const RunView& run) {
  const TallyOptions& range = run.tally.options();
  if (!layers_)
    layers_ = counts_by_coordinate(config_) ? layers_between(run.trainee.layers(), range.begin, range.end)
                                            : Layers();
  std::vector<std::string> owners;
  for (const Attendance::Seat& seat : attendance_.now().seats) owners.push_back(seat.name);
  const Insight insight = inspect(config_, run.tally, run.progress, owners, *layers_);
  std::vector<DashboardWorker> workers;
  for (const WorkerInsight& worker : insight.workers)
    workers.push_back({worker.batch, worker.error_rate, worker.weight, worker.say, name_of(worker.mark),
                       worker.mark == Mark::liar});
  state_.look(std::move(workers), insight.weighted, insight.learns ? heat_map_of(insight) : HeatMap());
}

}  // namespace signvote
