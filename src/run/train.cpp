#include "run/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/sha256.h"
#include "engine/local/local_engine.h"
#include "learn/evaluate.h"
#include "learn/gradients.h"
#include "learn/models.h"
#include "learn/partition.h"
#include "learn/state_file.h"
#include "run/checkpoint.h"
#include "signvote/error.h"
#include "signvote/sign_vector.h"
#include "signvote/tally.h"
#include "signvote/thread_pool.h"
#include "signvote/wire.h"
#include "tally/ballot_box.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Adds the time until its end to a sum that many threads add to.
class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<std::int64_t>& nanoseconds) : nanoseconds_(nanoseconds) {}
  ~Stopwatch() { nanoseconds_ += std::chrono::nanoseconds(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  std::atomic<std::int64_t>& nanoseconds_;
  Clock::time_point start_ = Clock::now();
};

GradientOptions gradient_options(const TrainConfig& config, const Dataset& dataset) {
  GradientOptions options;
  options.batches = config.batch_sizes();
  options.shares =
      partition(config.partition, dataset.train.labels, dataset.classes, options.batches.size(), config.seed);
  options.micro_batch = config.micro_batch;
  options.seed = config.seed;
  for (std::size_t m = 0; m < options.batches.size(); ++m)
    if (options.batches[m] > options.shares[m].size())
      throw ConfigError(
          fmt::format("worker {} has a batch of {} but holds only {} samples; give it a smaller batch in "
                      "--batches, or take another --partition",
                      m, options.batches[m], options.shares[m].size()));
  return options;
}

double bits_per_parameter(std::uint64_t bytes, std::uint64_t messages, std::size_t parameters) {
  if (messages == 0) return 0;
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(messages) / static_cast<double>(parameters);
}

/// One run in memory: the parts of a round, wired together.
class Run {
 public:
  Run(const TrainConfig& config, const Dataset& dataset, const TrainHooks& hooks)
      : config_(config),
        dataset_(dataset),
        hooks_(hooks),
        folder_(config.out),
        lock_(folder_),
        pool_(config.thread_count(), use_one_torch_thread),
        replicas_(config.model, dataset.train, dataset.classes, config.seed, pool_.size()),
        gradients_(dataset, gradient_options(config, dataset), replicas_, pool_),
        tally_(
            {config.tally_method(), *config.workers, 0, replicas_.size(), config.initial_rounds, config.clip},
            &pool_),
        box_(tally_, config.run_id()),
        engine_(box_),
        ballots_(*config.workers),
        messages_(*config.workers) {
    if (fs::exists(folder_ / "checkpoint.bin")) restore(load_checkpoint(folder_ / "checkpoint.bin"));
    metrics_.emplace(folder_ / "metrics.jsonl", resumed_.metrics_bytes);
    // A resumed run may go further than planned at first, or with other intervals.
    write_file_atomically(folder_ / "config.toml", write_config(config_));
    if (hooks_.started) hooks_.started();
  }

  TrainResult go() {
    const std::uint64_t last = std::min(config_.rounds, hooks_.pause_after);
    bool stopped = stop_requested();
    while (rounds_ < last && !stopped) {
      const double loss = round();
      ++rounds_;
      const bool evaluated = rounds_ % config_.eval_every == 0 || rounds_ == config_.rounds;
      if (evaluated) test(loss);
      stopped = stop_requested();
      if (rounds_ % config_.save_every == 0 || rounds_ == last || stopped) save();
      if (hooks_.progress) hooks_.progress({{}, rounds_, config_.rounds, accuracy_, loss, evaluated});
    }
    const bool finished = rounds_ == config_.rounds;
    if (finished || stopped) {
      estimate_batch_norm(dataset_, replicas_, pool_);
      save_state(replicas_.net(0), folder_ / "model.pt");
    }
    if (finished) {
      // Killed after the last save, a run comes back here with nothing left to train.
      if (!accuracy_) accuracy_ = evaluate(dataset_, replicas_, pool_).accuracy();
      write_file_atomically(folder_ / "summary.json", summary().dump(2) + "\n");
    }
    return {finished, rounds_};
  }

 private:
  bool stop_requested() const { return hooks_.stop != nullptr && *hooks_.stop; }

  /// The paper on one page: gradient, ballot, engine, tally, verdict, step.
  double round() {
    const Clock::time_point start = Clock::now();
    std::atomic<std::size_t> cast = 0;

    const double loss =
        gradients_.compute(rounds_, [&](std::uint32_t worker, std::span<const float> gradient) {
          const Stopwatch stopwatch(ballot_nanoseconds_);
          if (const auto bad = pack(gradient, ballots_[worker])) return abstain(worker, *bad);
          encode({MessageKind::ballot, config_.run_id(), rounds_, worker, gradient.size()}, ballots_[worker],
                 messages_[worker]);
          engine_.send_ballot(worker, messages_[worker]);
          ++cast;
        });
    if (cast == 0)
      throw Error(
          fmt::format("round {}: every worker's gradient is NaN or infinite, the model has diverged; try a "
                      "smaller --step",
                      rounds_ + 1));

    const Clock::time_point gradients_done = Clock::now();
    std::string problem;
    const MessageHeader expected{MessageKind::verdict, config_.run_id(), rounds_, 0, replicas_.size()};
    if (!decode(engine_.receive_verdict(), expected, verdict_, problem)) throw EngineError(problem);

    step(replicas_.parameters(), verdict_, static_cast<float>(config_.step));
    verdict_seconds_ += seconds_since(gradients_done);
    training_seconds_ += seconds_since(start);
    return loss;
  }

  /// A worker without a usable gradient takes no part in the round.
  void abstain(std::uint32_t worker, std::size_t bad) {
    const std::lock_guard lock(warn_mutex_);
    ++absences_;
    if (hooks_.warn)
      hooks_.warn(
          fmt::format("round {}: worker {} abstains, its gradient is NaN or infinite at {} (coordinate {})",
                      rounds_ + 1, worker, replicas_.coordinate_name(bad), bad));
  }

  void test(double train_loss) {
    estimate_batch_norm(dataset_, replicas_, pool_);
    const Evaluation evaluation = evaluate(dataset_, replicas_, pool_);
    accuracy_ = evaluation.accuracy();
    const LocalEngine::Traffic sent = traffic();
    metrics_->append(nlohmann::ordered_json{
        {"round", rounds_},
        {"test_accuracy", evaluation.accuracy()},
        {"test_loss", evaluation.loss},
        {"train_loss", train_loss},
        {"bits_per_parameter_up", bits_per_parameter(sent.ballot_bytes, sent.ballots, replicas_.size())},
        {"bits_per_parameter_down", bits_per_parameter(sent.verdict_bytes, sent.verdicts, replicas_.size())},
        {"seconds",
         seconds()}}.dump());
  }

  nlohmann::ordered_json summary() {
    const LocalEngine::Traffic sent = traffic();
    const std::vector<std::uint32_t> batches = config_.batch_sizes();
    const double samples =
        static_cast<double>(rounds_) * std::accumulate(batches.begin(), batches.end(), 0.0);
    std::vector<double> reliability;  // mean error rate over the coordinates, as the tally sees it
    if (config_.tally_method() == Method::it)
      for (std::uint32_t m = 0; m < *config_.workers; ++m)
        reliability.push_back(static_cast<double>(tally_.total_half_errors(m)) / 2.0 /
                              std::max(1.0, static_cast<double>(tally_.rounds_of(m))) /
                              static_cast<double>(tally_.size()));
    nlohmann::ordered_json result = {
        {"method", config_.method},
        {"dataset", config_.dataset},
        {"model", config_.model},
        {"parameters", replicas_.size()},
        {"workers", *config_.workers},
        {"batches", config_.batches},
        {"partition", config_.partition},
        {"rounds", rounds_},
        {"step", config_.step},
        {"initial_rounds", config_.initial_rounds},
        {"seed", config_.seed},
        {"test_accuracy", accuracy_.value_or(0)},
        {"model_sha256", sha256_hex(std::as_bytes(replicas_.parameters()))},
        {"bits_per_parameter_up", bits_per_parameter(sent.ballot_bytes, sent.ballots, replicas_.size())},
        {"bits_per_parameter_down", bits_per_parameter(sent.verdict_bytes, sent.verdicts, replicas_.size())},
        {"absences", absences_},
        {"samples_per_second", training_seconds_ > 0 ? samples / training_seconds_ : 0},
        {"outside_gradients_share", outside_gradients_share()},
        {"seconds", seconds()}};
    if (!reliability.empty()) result["mean_error_rates"] = reliability;
    return result;
  }

  void save() {
    Checkpoint checkpoint;
    checkpoint.run_id = config_.run_id();
    checkpoint.rounds = rounds_;
    metrics_->sync();
    checkpoint.metrics_bytes = metrics_->bytes();
    checkpoint.seconds = seconds();
    checkpoint.training_seconds = training_seconds_;
    checkpoint.absences = absences_;
    checkpoint.traffic = traffic();
    checkpoint.parameters.assign(replicas_.parameters().begin(), replicas_.parameters().end());
    checkpoint.tally = tally_.snapshot();
    save_checkpoint(checkpoint, folder_ / "checkpoint.bin");
  }

  void restore(Checkpoint checkpoint) {
    if (checkpoint.run_id != config_.run_id())
      throw ConfigError(fmt::format("'{}' was changed after the run began: checkpoint.bin has other settings",
                                    (folder_ / "config.toml").string()));
    if (checkpoint.parameters.size() != replicas_.size())
      throw DataError(fmt::format("'{}' has {} parameters where the model has {}",
                                  (folder_ / "checkpoint.bin").string(), checkpoint.parameters.size(),
                                  replicas_.size()));
    std::ranges::copy(checkpoint.parameters, replicas_.parameters().begin());
    tally_.restore(checkpoint.tally);
    rounds_ = checkpoint.rounds;
    training_seconds_ = checkpoint.training_seconds;
    absences_ = checkpoint.absences;
    checkpoint.parameters = {};
    checkpoint.tally = {};
    resumed_ = std::move(checkpoint);
    if (rounds_ > config_.rounds)
      throw ConfigError(fmt::format("'{}' has finished {} rounds already, more than --rounds {}",
                                    folder_.string(), rounds_, config_.rounds));
  }

  LocalEngine::Traffic traffic() const {
    LocalEngine::Traffic sum = engine_.traffic();
    sum.ballots += resumed_.traffic.ballots;
    sum.ballot_bytes += resumed_.traffic.ballot_bytes;
    sum.verdicts += resumed_.traffic.verdicts;
    sum.verdict_bytes += resumed_.traffic.verdict_bytes;
    return sum;
  }

  /// Of the time of this process's rounds, what packing, voting and stepping took: all but gradients.
  double outside_gradients_share() const {
    const double rounds_seconds = training_seconds_ - resumed_.training_seconds;
    const double ballot_seconds =
        1e-9 * static_cast<double>(ballot_nanoseconds_) / static_cast<double>(pool_.size());
    return rounds_seconds > 0 ? (ballot_seconds + verdict_seconds_) / rounds_seconds : 0;
  }

  double seconds() const { return resumed_.seconds + seconds_since(start_); }

  const TrainConfig& config_;
  const Dataset& dataset_;
  const TrainHooks& hooks_;
  fs::path folder_;
  FolderLock lock_;
  ThreadPool pool_;
  Replicas replicas_;
  Gradients gradients_;
  Tally tally_;
  BallotBox box_;
  LocalEngine engine_;
  std::vector<SignVector> ballots_;
  std::vector<std::vector<std::byte>> messages_;
  SignVector verdict_;
  std::optional<LineLog> metrics_;

  Clock::time_point start_ = Clock::now();
  Checkpoint resumed_;  // what was done before this process; its large parts are empty
  std::uint64_t rounds_ = 0;
  std::mutex warn_mutex_;
  std::uint64_t absences_ = 0;
  double training_seconds_ = 0;
  double verdict_seconds_ = 0;                        // from the last gradient to the end of the step
  std::atomic<std::int64_t> ballot_nanoseconds_ = 0;  // of all threads, from a gradient to its ballot cast
  std::optional<double> accuracy_;
};

}  // namespace

void check_batches(const TrainConfig& config, const Dataset& dataset) { gradient_options(config, dataset); }

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

TrainResult train(const TrainConfig& config, const Dataset& dataset, const TrainHooks& hooks) {
  use_one_torch_thread();
  return Run(config, dataset, hooks).go();
}

TrainConfig load_run(const fs::path& folder) {
  if (!fs::exists(folder / "config.toml"))
    throw ConfigError(fmt::format("'{}' holds no run: it has no config.toml", folder.string()));
  TrainConfig config;
  read_config(folder / "config.toml", config);
  config.out = folder.string();
  resolve(config);
  return config;
}

nlohmann::json read_summary(const fs::path& folder) {
  const fs::path file = folder / "summary.json";
  if (!fs::exists(file)) return nullptr;
  try {
    return nlohmann::json::parse(read_text_file(file));
  } catch (const nlohmann::json::exception&) {
    throw DataError(fmt::format("'{}' is damaged: it is not JSON", file.string()));
  }
}

void fork_run(const fs::path& from, const TrainConfig& config) {
  Checkpoint checkpoint = load_checkpoint(from / "checkpoint.bin");
  if (config.tally_method() != Method::mv || checkpoint.rounds > config.initial_rounds)
    throw ConfigError("only an mv run can be forked, and only from an it run in its initial phase");
  const std::size_t parameters = checkpoint.parameters.size();
  Tally tally({Method::mv, *config.workers, 0, parameters, config.initial_rounds, config.clip});
  SignVector verdict;
  const std::vector<const SignVector*> nobody(*config.workers);
  while (tally.rounds() < checkpoint.rounds) tally.decide(nobody, verdict);
  checkpoint.tally = tally.snapshot();
  checkpoint.run_id = config.run_id();
  create_run(config);
  write_file_atomically(fs::path(config.out) / "metrics.jsonl",
                        read_text_file(from / "metrics.jsonl").substr(0, checkpoint.metrics_bytes));
  save_checkpoint(checkpoint, fs::path(config.out) / "checkpoint.bin");
}

std::string format_summary(const nlohmann::json& summary) {
  return fmt::format(
      "test accuracy   {:.2f} %\nbits/parameter  {:.3f} up, {:.3f} down\nsamples/second  {:.0f}\n"
      "model sha256    {}\n",
      100 * summary.at("test_accuracy").get<double>(), summary.at("bits_per_parameter_up").get<double>(),
      summary.at("bits_per_parameter_down").get<double>(), summary.at("samples_per_second").get<double>(),
      summary.at("model_sha256").get<std::string>());
}

}  // namespace signvote
