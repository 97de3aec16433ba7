#include "run/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/files.h"
#include "engine/local/local_engine.h"
#include "engine/mpi/mpi_engine.h"
#include "run/checkpoint.h"
#include "run/learner.h"
#include "run/ranks.h"
#include "run/record.h"
#include "signvote/error.h"
#include "signvote/tally.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::uint32_t> hosted_workers(const TrainConfig& config, const MpiSession* session) {
  if (session != nullptr) return host_workers(config.batch_sizes(), session->ranks())[session->rank()];
  std::vector<std::uint32_t> all(*config.workers);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

std::unique_ptr<Engine> make_engine(const TrainConfig& config, const TrainHooks& hooks,
                                    const MpiSession* session, Learner& learner) {
  const TallyOptions tally{config.tally_method(),     *config.workers,       0,
                           learner.replicas().size(), config.initial_rounds, config.clip};
  if (session == nullptr) return std::make_unique<LocalEngine>(tally, config.run_id(), &learner.pool());
  MpiEngineOptions options;
  options.tally = tally;
  options.run_id = config.run_id();
  options.hosted = host_workers(config.batch_sizes(), session->ranks());
  options.stop_requested = [&hooks] { return hooks.stop != nullptr && *hooks.stop; };
  options.stop_while_waiting = [&hooks, session, out = config.out] {
    if (session->rank() == 0 && hooks.warn)
      hooks.warn(
          fmt::format("asked to stop while other ranks are at work; if one of them died, go on from "
                      "the last save with: signvote train --resume '{}'",
                      out));
  };
  return std::make_unique<MpiEngine>(*session, std::move(options), &learner.pool());
}

/// One run in memory: the parts of a round, wired together. Of several processes each has one.
class Run {
 public:
  Run(const TrainConfig& config, const Dataset& dataset, const TrainHooks& hooks, const MpiSession* session)
      : config_(config),
        hooks_(hooks),
        session_(session),
        folder_(config.out),
        batches_(config.batch_sizes()),
        learner_(config, dataset, hosted_workers(config, session), hooks.warn),
        engine_(make_engine(config, hooks, session, learner_)) {
    if (engine_->leads()) lock_.emplace(folder_);
    if (fs::exists(folder_ / "checkpoint.bin")) restore(load_checkpoint(folder_ / "checkpoint.bin"));
  }

  /// From here on the folder changes: to be called when no process has failed to get this far.
  void take_over(const Dataset& dataset) {
    if (!engine_->leads()) return;
    remove_shards(folder_, resumed_.shards);
    record_.emplace(config_, dataset, learner_.replicas(), learner_.pool(), resumed_.metrics_bytes);
    // A resumed run may go further than planned at first, or with other intervals.
    write_file_atomically(folder_ / "config.toml", write_config(config_));
    if (hooks_.started) hooks_.started();
  }

  TrainResult go() {
    const std::uint64_t last = std::min(config_.rounds, hooks_.pause_after);
    bool stopped = alone() && stop_requested();
    engine_->wait_for_all();  // from here on the totals are those of all shards
    while (rounds_ < last && !stopped) {
      const double loss = round(stopped);
      ++rounds_;
      const bool evaluated = rounds_ % config_.eval_every == 0 || rounds_ == config_.rounds;
      if (evaluated && record_) record_->test(progress(), loss);
      stopped = stopped || (alone() && stop_requested());
      if (rounds_ % config_.save_every == 0 || rounds_ == last || stopped) save();
      if (record_ && hooks_.progress)
        hooks_.progress({{}, rounds_, config_.rounds, record_->accuracy(), loss, evaluated});
    }
    const bool finished = rounds_ == config_.rounds;
    if (record_ && (finished || stopped)) record_->write_model();
    if (record_ && finished)
      record_->write_summary(progress(), engine_->tally(), engine_->total_half_errors(),
                             {{"outside_gradients_share", outside_gradients_share()}});
    return {finished, rounds_};
  }

 private:
  /// Then it may stop at any time; several processes have to agree on a round.
  bool alone() const { return engine_->hosted().size() == batches_.size(); }
  bool stop_requested() const { return hooks_.stop != nullptr && *hooks_.stop; }

  /// The paper on one page: gradient, ballot, engine, tally, verdict, step. Returns the mean loss, and
  /// in `stopped` whether some process was asked to stop.
  double round(bool& stopped) {
    const Clock::time_point start = Clock::now();
    learner_.vote(rounds_, [this](std::uint32_t worker, const SignVector* ballot, double loss) {
      engine_->send_ballot(worker, ballot, loss);
    });
    const Clock::time_point gradients_done = Clock::now();

    const Outcome outcome = engine_->receive_verdict(stop_requested());
    if (outcome.present == 0) throw_diverged();
    learner_.step(*outcome.verdict);

    verdict_seconds_ += seconds_since(gradients_done);
    training_seconds_ += seconds_since(start);
    absences_ += *config_.workers - outcome.present;
    stopped = outcome.stop;
    return mean_loss(outcome.losses, batches_);
  }

  [[noreturn]] void throw_diverged() {
    if (!engine_->leads()) engine_->wait_for_all();  // one rank's word is enough: it ends the job
    throw nobody_voted(config_, rounds_);
  }

  RunProgress progress() const {
    RunProgress result = resumed_.progress;
    result.rounds = rounds_;
    result.absences += absences_;
    result.samples = static_cast<double>(rounds_) * std::accumulate(batches_.begin(), batches_.end(), 0.0);
    result.seconds += seconds_since(start_);
    result.training_seconds += training_seconds_;
    result.traffic += engine_->traffic();
    return result;
  }

  /// The shards are written before the checkpoint that names them, so whenever a process dies there is
  /// a whole set of one round.
  void save() {
    on_all_ranks(session_, [this] {
      if (!engine_->leads()) save_shard(engine_->tally(), folder_);
    });
    if (!engine_->leads()) return;
    Checkpoint checkpoint;
    checkpoint.run_id = config_.run_id();
    checkpoint.metrics_bytes = record_->sync_metrics();
    checkpoint.progress = progress();
    checkpoint.shards =
        find_shards(folder_, rounds_, engine_->tally().options().end, learner_.replicas().size());
    const auto parameters = learner_.replicas().parameters();
    checkpoint.parameters.assign(parameters.begin(), parameters.end());
    checkpoint.tally = engine_->tally().snapshot();
    save_checkpoint(checkpoint, folder_ / "checkpoint.bin");
    remove_shards(folder_, checkpoint.shards);
  }

  void restore(Checkpoint checkpoint) {
    const std::size_t size = learner_.replicas().size();
    if (checkpoint.run_id != config_.run_id())
      throw ConfigError(fmt::format("'{}' was changed after the run began: checkpoint.bin has other settings",
                                    (folder_ / "config.toml").string()));
    if (checkpoint.parameters.size() != size)
      throw DataError(fmt::format("'{}' has {} parameters where the model has {}",
                                  (folder_ / "checkpoint.bin").string(), checkpoint.parameters.size(), size));
    std::ranges::copy(checkpoint.parameters, learner_.replicas().parameters().begin());
    restore_tally(checkpoint, folder_, engine_->tally());
    rounds_ = checkpoint.progress.rounds;
    checkpoint.parameters = {};
    checkpoint.tally = {};
    resumed_ = std::move(checkpoint);
    if (rounds_ > config_.rounds)
      throw ConfigError(fmt::format("'{}' has finished {} rounds already, more than --rounds {}",
                                    folder_.string(), rounds_, config_.rounds));
  }

  /// Of the time of this process's rounds, what packing, voting and stepping took: all but gradients.
  double outside_gradients_share() {
    const double ballot_seconds = learner_.ballot_seconds() / static_cast<double>(learner_.pool().size());
    return training_seconds_ > 0 ? (ballot_seconds + verdict_seconds_) / training_seconds_ : 0;
  }

  const TrainConfig& config_;
  const TrainHooks& hooks_;
  const MpiSession* session_;
  fs::path folder_;
  std::vector<std::uint32_t> batches_;
  std::optional<FolderLock> lock_;  // the leader's, as is the record
  Learner learner_;
  std::unique_ptr<Engine> engine_;
  std::optional<Record> record_;

  Checkpoint resumed_;  // what was done before this process; its large parts are empty
  std::uint64_t rounds_ = 0;
  // Of this process:
  Clock::time_point start_ = Clock::now();
  std::uint64_t absences_ = 0;
  double training_seconds_ = 0;
  double verdict_seconds_ = 0;  // from the last gradient to the end of the step
};

}  // namespace

void check_batches(const TrainConfig& config, const Dataset& dataset) {
  gradient_options(config, dataset, {});
}

void create_run(const TrainConfig& config) {
  const fs::path folder = config.out;
  for (const char* file : {"config.toml", "metrics.jsonl", "checkpoint.bin", "model.pt", "summary.json"})
    if (fs::exists(folder / file))
      throw ConfigError(
          fmt::format("'{0}' holds a run already; go on with it by --resume '{0}', or choose another --out",
                      folder.string()));
  make_folder(folder);
  write_file_atomically(folder / "config.toml", write_config(config));
}

TrainResult train(const TrainConfig& config, const Dataset& dataset, const TrainHooks& hooks,
                  const MpiSession* session) {
  use_one_torch_thread();
  std::optional<Run> run;
  on_all_ranks(session, [&] { run.emplace(config, dataset, hooks, session); });
  on_all_ranks(session, [&] { run->take_over(dataset); });
  TrainResult result;
  end_all_on_error(session, [&] { result = run->go(); });
  return result;
}

void fork_run(const fs::path& from, const TrainConfig& config) {
  Checkpoint checkpoint = load_checkpoint(from / "checkpoint.bin");
  if (config.tally_method() != Method::mv || checkpoint.progress.rounds > config.initial_rounds)
    throw ConfigError("only an mv run can be forked, and only from an it run in its initial phase");
  const std::size_t parameters = checkpoint.parameters.size();
  Tally tally({Method::mv, *config.workers, 0, parameters, config.initial_rounds, config.clip});
  SignVector verdict;
  const std::vector<const SignVector*> nobody(*config.workers);
  while (tally.rounds() < checkpoint.progress.rounds) tally.decide(nobody, verdict);
  checkpoint.tally = tally.snapshot();
  checkpoint.shards.clear();
  checkpoint.run_id = config.run_id();
  create_run(config);
  write_file_atomically(fs::path(config.out) / "metrics.jsonl",
                        read_text_file(from / "metrics.jsonl").substr(0, checkpoint.metrics_bytes));
  save_checkpoint(checkpoint, fs::path(config.out) / "checkpoint.bin");
}

}  // namespace signvote
