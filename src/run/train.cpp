#include "run/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/text.h"
#include "engine/checkpoint.h"
#include "engine/local/local_engine.h"
#include "run/bare_parameters.h"
#include "run/learner.h"
#include "run/loss_watch.h"
#include "run/network.h"
#include "run/record.h"
#include "run/schedule.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

/// One run in memory: the parts of a round, wired together. Each process has one.
class Run {
 public:
  Run(const TrainConfig& config, const MakeTrainee& make, const TrainHooks& hooks, const EnginePlan& plan,
      const Group& group)
      : config_(config),
        hooks_(hooks),
        group_(group),
        folder_(config.out),
        trainee_(make()),
        engine_(
            plan.make(config.tally_options(trainee_->parameters().size()), trainee_->pool().parallel_for())) {
    progress_.votes.resize(*config_.workers);
    progress_.samples.resize(*config_.workers);
    if (engine_->leads()) lock_.emplace(folder_);
    engine_->open(
        state(), [this](const RunState& saved) { restore(saved); },
        [this](const Outcome& outcome) { take(outcome); });
    // Only now is it known how many rounds were done; what was replayed wrongly is thrown away.
    const bool begun = engine_->leads() && fs::exists(folder_ / "config.toml");
    check_rounds(begun ? load_run(folder_) : config_, config_, progress_.rounds);
  }

  /// Begins to change the folder. To be called when no process has failed before.
  void take_over() {
    if (!engine_->leads()) return;
    record_.emplace(config_, *trainee_, progress_.rounds);
    keep_model_file(config_);  // before the config.toml that names it
    keep_parameters_file(config_);
    // A resumed run may have more rounds or other intervals than before.
    write_file_atomically(folder_ / "config.toml", write_config(config_));
    if (hooks_.started) hooks_.started();
    const Method method = config_.tally_method();
    if (method != Method::mv && method != Method::fixed && config_.rounds <= *config_.initial_rounds &&
        hooks_.warn)
      hooks_.warn(
          fmt::format("with --rounds {} and --initial-rounds {} all rounds are decided by plain majority, as "
                      "with --method mv; take more rounds or fewer initial rounds",
                      config_.rounds, *config_.initial_rounds));
  }

  TrainResult go() {
    engine_->start();
    // A server that was killed may have decided a round without testing it.
    if (record_ && progress_.rounds > 0 && due_for_test() && !record_->has_row(progress_.rounds)) test();
    const std::uint64_t last = std::min(config_.rounds, hooks_.pause_after);
    watch(std::numeric_limits<double>::quiet_NaN());
    bool stopped = stops_alone();
    bool is_enough = out_of_patience();
    while (progress_.rounds < last && !stopped && !is_enough) {
      const bool decided = round(stopped);
      const bool tests = decided && due_for_test();
      if (tests && record_) timed("evaluate", [&] { test(); });
      if (tests) is_enough = out_of_patience();
      stopped = stopped || stops_alone();
      if (progress_.rounds % config_.save_every == 0 || progress_.rounds == last || stopped || is_enough)
        save();
      if (decided && record_ && hooks_.progress)
        hooks_.progress({{},
                         progress_.rounds,
                         config_.rounds,
                         record_->shown_accuracy(),
                         loss_,
                         tests,
                         record_->shown_test_loss()});
      if (decided) watch(loss_);
    }
    if (row_waits_) write_row(nullptr);
    const bool finished = progress_.rounds == config_.rounds || is_enough;
    if (is_enough && record_ && hooks_.warn)
      hooks_.warn(fmt::format("ends after round {} of {}, because the last {} {} not better than the best",
                              progress_.rounds, config_.rounds, counted(record_->tests_since_best(), "test"),
                              record_->tests_since_best() == 1 ? "was" : "were"));
    if (record_ && (finished || stopped)) record_->write_model();
    if (finished) {
      const std::vector<std::int64_t> totals = engine_->total_half_errors();
      if (record_) record_->write_summary(progress(), engine_->tally(), totals, outside_gradients_share());
      engine_->finish();
    }
    return {finished, progress_.rounds};
  }

 private:
  /// The paper on one page: gradient, ballot, engine, tally, verdict, step. Returns false if the round was
  /// not decided, because this process was asked to stop; `stopped` says whether any process was.
  bool round(bool& stopped) {
    const Clock::time_point start = Clock::now();
    trainee_->vote(progress_.rounds, [this](std::uint32_t worker, const SignVector* ballot, BatchLoss loss) {
      engine_->send_ballot(worker, ballot, loss);
    });
    const Clock::time_point gradients_done = Clock::now();
    if (progress_.rounds % kDigestEvery == 0) engine_->send_digest(digest(trainee_->parameters()));

    const Outcome outcome = engine_->receive_verdict(hooks_.stop_requested());
    stopped = outcome.stop;
    if (outcome.verdict == nullptr && stopped) return false;
    if (outcome.present == 0) on_all_ranks(group_, [this] { throw_diverged(); });
    const ReportedTest* reported = outcome.tests.empty() ? nullptr : &outcome.tests.front();
    if (row_waits_ || (reported && record_ && progress_.rounds > 0 && !record_->has_row(progress_.rounds)))
      write_row(reported);
    timed("step", [&] { take(outcome); });

    if (const auto warning = loss_watch_.add(progress_.rounds, loss_); warning && record_ && hooks_.warn)
      hooks_.warn(*warning);
    verdict_seconds_ += seconds_since(gradients_done);
    training_seconds_ += seconds_since(start);
    return true;
  }

  /// Steps by a decided round and counts it. Used for new rounds and for those replayed from a journal.
  void take(const Outcome& outcome) {
    trainee_->step(progress_.rounds++, *outcome.verdict);
    double loss = 0;
    double samples = 0;
    for (std::size_t m = 0; m < outcome.losses.size(); ++m) {
      const BatchLoss& said = outcome.losses[m];
      if (said.samples == 0) continue;
      ++progress_.votes[m];
      progress_.samples[m] += said.samples;
      loss += said.loss;
      samples += said.samples;
    }
    loss_ = loss / samples;
  }

  [[noreturn]] void throw_diverged() const {
    throw Error(
        fmt::format("round {}: every worker's gradient is NaN or infinite{}, the model has diverged; try a "
                    "smaller --step",
                    progress_.rounds + 1, config_.absent.empty() ? "" : ", or the worker is --absent"));
  }

  bool due_for_test() const {
    return progress_.rounds % config_.eval_every == 0 || progress_.rounds == config_.rounds;
  }

  /// True if the run ends before its last round, because its tests have not become better for so long. Only
  /// the leader knows them; all processes call this after the same rounds.
  bool out_of_patience() const {
    if (config_.patience == 0) return false;
    return !group_.of_leader(record_ && record_->tests_since_best() >= config_.patience ? "ends" : "")
                .empty();
  }

  /// True if this process may stop without a round. Several processes must agree on a stop, which they do
  /// in a round.
  bool stops_alone() const { return group_.size() == 1 && hooks_.stop_requested(); }

  /// Where only workers can test the model, the row waits for their reports, which come with the next
  /// ballots.
  void test() {
    if (config_.has_network())
      write_row(nullptr);
    else
      row_waits_ = true;
  }

  void write_row(const ReportedTest* reported) {
    row_waits_ = false;
    const MetricsRow row = record_->test(progress(), loss_, reported);
    if (hooks_.tested) hooks_.tested(row, engine_->tally());
  }

  void watch(double loss) {
    if (record_ && hooks_.watch)
      hooks_.watch({progress(), engine_->tally(), *trainee_, trainee_->parameters().size(), loss});
  }

  void save() {
    if (record_) record_->sync();
    timed("save", [this] { engine_->save(state()); });
  }

  RunState state() {
    const auto parameters = trainee_->parameters();
    RunState result;
    result.run_id = config_.run_id();
    result.progress = progress();
    result.memories = trainee_->memories();
    result.parameters.assign(parameters.begin(), parameters.end());
    return result;
  }

  void restore(const RunState& saved) {
    const std::size_t size = trainee_->parameters().size();
    if (saved.run_id != config_.run_id())
      throw ConfigError(
          fmt::format("'{}' holds a run with other settings than those given or in its config.toml; use the "
                      "ones it was begun with, or choose another folder",
                      folder_.string()));
    if (saved.parameters.size() != size)
      throw DataError(fmt::format("'{}' has {} parameters where the model has {}", folder_.string(),
                                  saved.parameters.size(), size));
    trainee_->set_memories(saved.memories);
    std::ranges::copy(saved.parameters, trainee_->parameters().begin());
    progress_ = saved.progress;
  }

  RunProgress progress() const {
    RunProgress result = progress_;
    result.seconds += seconds_since(start_);
    result.training_seconds += training_seconds_;
    if (engine_) result.traffic += engine_->traffic();
    return result;
  }

  void timed(const char* phase, const std::function<void()>& work) const {
    const Clock::time_point start = Clock::now();
    work();
    if (hooks_.spent) hooks_.spent(phase, seconds_since(start));
  }

  /// The share of this process's training time that was not spent on gradients but on packing, voting and
  /// stepping. Nothing if the process computes no gradients.
  std::optional<double> outside_gradients_share() {
    if (engine_->hosted().empty() || training_seconds_ == 0) return std::nullopt;
    const double ballot_seconds = trainee_->ballot_seconds() / static_cast<double>(trainee_->pool().size());
    return (ballot_seconds + verdict_seconds_) / training_seconds_;
  }

  const TrainConfig& config_;
  const TrainHooks& hooks_;
  const Group& group_;
  fs::path folder_;
  std::optional<FolderLock> lock_;  // only the leader has it, and the record
  std::unique_ptr<Trainee> trainee_;
  std::unique_ptr<Engine> engine_;
  std::optional<Record> record_;

  RunProgress progress_;    // its times and traffic are those of earlier processes
  double loss_ = 0;         // the mean loss of the last round
  bool row_waits_ = false;  // of metrics.jsonl, on the model as it is
  LossWatch loss_watch_;
  // The times of this process.
  Clock::time_point start_ = Clock::now();
  double training_seconds_ = 0;
  double verdict_seconds_ = 0;  // from the last gradient to the end of the step
};

}  // namespace

EnginePlan local_engine(const TrainConfig& config) {
  EnginePlan plan;
  plan.hosted.resize(*config.workers);
  std::iota(plan.hosted.begin(), plan.hosted.end(), 0U);
  plan.make = [run_id = config.run_id(), out = config.out](const TallyOptions& tally,
                                                           const ParallelFor& parallel) {
    return std::make_unique<LocalEngine>(tally, run_id, out, parallel);
  };
  return plan;
}

void check_batches(const TrainConfig& config, const Dataset& dataset) {
  gradient_options(config, dataset, {});
}

void create_run(const TrainConfig& config) {
  const fs::path folder = config.out;
  make_folder(folder);
  const FolderLock lock(folder);  // before looking, because two may begin here at once
  for (const char* file :
       {"config.toml", "metrics.jsonl", "checkpoint.bin", "best.pt", "model.pt", "summary.json"})
    if (fs::exists(folder / file))
      throw ConfigError(
          fmt::format("'{0}' holds a run already; go on with it by --resume '{0}', or choose another --out",
                      folder.string()));
  keep_model_file(config);
  write_file_atomically(folder / "config.toml", write_config(config));
}

TrainResult train(const TrainConfig& config, const MakeTrainee& make, const TrainHooks& hooks,
                  const EnginePlan& plan, const Group& group) {
  use_one_torch_thread();
  std::optional<Run> run;
  on_all_ranks(group, [&] { run.emplace(config, make, hooks, plan, group); });
  on_all_ranks(group, [&] { run->take_over(); });
  return run->go();
}

TrainResult train(const TrainConfig& config, const Dataset& dataset, const TrainHooks& hooks,
                  const EnginePlan& plan, const Group& group) {
  const auto make = [&] { return std::make_unique<Learner>(config, dataset, plan.hosted, hooks.warn); };
  return train(config, make, hooks, plan, group);
}

void fork_run(const fs::path& from, const TrainConfig& config) {
  const std::vector<std::uint32_t> hosted = local_engine(config).hosted;
  auto state = load_checkpoint(from, hosted);
  if (!state || config.tally_method() != Method::mv || state->progress.rounds > *config.initial_rounds)
    throw ConfigError("only an mv run can be forked, and only from an it run in its initial phase");
  Tally tally(config.tally_options(state->parameters.size()));
  SignVector verdict;
  const std::vector<std::optional<SignView>> nobody(*config.workers);
  while (tally.rounds() < state->progress.rounds) tally.decide(nobody, verdict);
  state->run_id = config.run_id();
  create_run(config);
  write_file_atomically(fs::path(config.out) / "metrics.jsonl", read_text_file(from / "metrics.jsonl"));
  if (fs::exists(from / kBestModel)) fs::copy_file(from / kBestModel, fs::path(config.out) / kBestModel);
  save_memories(*state, config.out);
  save_checkpoint(std::move(*state), tally, config.out);
}

}  // namespace signvote
