#include "run/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "learn/dataset.h"
#include "run/evaluator.h"
#include "run/learner.h"
#include "run/worker_memory.h"
#include "signvote/error.h"

namespace signvote {
namespace {

/// When the user asks for a stop, stops a session even while it waits for the server.
class StopWatcher {
 public:
  StopWatcher(const TrainHooks& hooks, WorkerSession& session)
      : thread_([this, &hooks, &session] {
          while (!done_ && !hooks.stop_requested())
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
          if (!done_) session.stop();
        }) {}
  ~StopWatcher() {
    done_ = true;
    thread_.join();
  }
  StopWatcher(const StopWatcher&) = delete;
  StopWatcher& operator=(const StopWatcher&) = delete;

 private:
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

class Worker {
 public:
  Worker(const WorkerOptions& options, const TrainHooks& hooks)
      : options_(options), hooks_(hooks), session_(session_options()), watcher_(hooks, session_) {}

  TrainResult go() {
    using Event = WorkerSession::Event;
    const JoinedRun& run = session_.join();
    if (hooks_.stop_requested()) return {false, 0};
    prepare(run);
    while (true) {
      const Event event = session_.next(evaluator_ ? evaluator_->parameters() : learner_->parameters());
      if (event == Event::vote)
        evaluator_ ? test(run.rounds) : vote();
      else if (event == Event::stepped)
        report(run.rounds);
      else
        return {event == Event::finished, session_.round()};
    }
  }

 private:
  WorkerSessionOptions session_options() const {
    WorkerSessionOptions session = options_.session;
    session.log = [this](const std::string& line) { say(line); };
    return session;
  }

  void say(const std::string& line) const {
    if (hooks_.warn) hooks_.warn(line);
  }

  /// Prepares what the server wants trained.
  void prepare(const JoinedRun& run) {
    parse_config(run.settings, "the server's settings", config_);
    if (options_.evaluate) return prepare_tests(run);
    if (!config_.has_network())
      throw ConfigError(fmt::format(
          "the server trains {} parameters of a model that signvote does not know: this run needs "
          "a worker of its own, see docs/python.md; signvote can --evaluate it",
          run.parameters));
    config_.data = options_.data;
    if (!is_dataset_name(config_.dataset) && config_.data.empty())
      throw ConfigError(
          fmt::format("the server trains on a data set that signvote does not know, {}; give this worker its "
                      "copy with --data",
                      config_.dataset));
    if (config_.has_own_model()) {
      if (options_.model.empty())
        throw ConfigError(fmt::format(
            "the server trains a model that signvote does not know; give this worker the file with the "
            "SHA-256 {} with --model",
            config_.model_file_sha256));
      config_.model = options_.model;
    }
    config_.threads = options_.threads;
    config_.out = "unused";
    resolve(config_);
    worker_ = run.worker;
    if (worker_ >= *config_.workers)
      throw EngineError(
          fmt::format("the server gave this worker the number {} of {}", worker_, *config_.workers));
    dataset_ = config_.load_data();
    learner_ = std::make_unique<Learner>(config_, dataset_, std::vector{worker_}, hooks_.warn);
    if (run.parameters != learner_->parameters().size())
      throw EngineError(fmt::format(
          "the server's model has {} parameters, this worker's {}; run the same signvote on both sides",
          run.parameters, learner_->parameters().size()));
    const std::size_t share = learner_->share(worker_);
    batch_ = options_.batch.value_or(config_.batch_sizes()[worker_]);
    if (options_.round_seconds > 0) batch_ = static_cast<std::uint32_t>(std::min<std::size_t>(64, share));
    if (batch_ > share)
      throw ConfigError(fmt::format("--batch is {}, but worker {} holds only {}", batch_, worker_,
                                    counted(share, "sample")));
    learner_->set_batch(worker_, batch_);
    remember(run);
    say(fmt::format("worker {} of {}: {} on {} with {} a round of {}, {}", worker_, *config_.workers,
                    std::filesystem::path(config_.model).filename().string(), config_.dataset,
                    options_.round_seconds > 0 ? fmt::format("what samples fit {} s", options_.round_seconds)
                                               : counted(batch_, "sample"),
                    share, counted(run.rounds, "round")));
  }

  void prepare_tests(const JoinedRun& run) {
    if (config_.has_network())
      throw ConfigError("the server knows its model and tests it itself; leave --evaluate out");
    evaluator_ =
        std::make_unique<Evaluator>(options_.model, options_.data, options_.threads, config_.parameters);
    if (run.parameters != evaluator_->parameters().size())
      throw ConfigError(fmt::format("the server's model has {} parameters, '{}' has {}", run.parameters,
                                    options_.model, evaluator_->parameters().size()));
  }

  /// Answers a round without a vote, and now and then with a test of its model.
  void test(std::uint64_t rounds) {
    const std::uint64_t round = session_.round();
    if (round > 0 && (round % config_.eval_every == 0 || round + 1 == rounds)) {
      const Evaluation result = evaluator_->test();
      const std::optional<double> accuracy = result.accuracy();
      say(fmt::format("round {} of {}{}, test loss {:.4f}", round, rounds,
                      accuracy ? fmt::format(", accuracy {:.2f} %", 100 * *accuracy) : "", result.loss));
      if (accuracy || std::isfinite(result.loss))
        session_.report(accuracy, std::isfinite(result.loss) ? std::optional(result.loss) : std::nullopt);
    }
    session_.abstain();
  }

  /// Goes on with the memory that an earlier process of this worker left, if there is one.
  void remember(const JoinedRun& run) {
    std::vector<float>& memory = learner_->memory(worker_);
    if (memory.empty()) return;
    if (options_.state.empty()) return;
    kept_.emplace(options_.state, run.run_id, worker_);
    static_cast<void>(kept_->load(learner_->parameters().size(), last_, memory));
  }

  /// Says so where the memory begins anew in the middle of a run: there is none, or the server's run has
  /// gone back, or was begun anew with the same settings, and the memory is of rounds that are still to
  /// come.
  void check_memory() {
    std::vector<float>& memory = learner_->memory(worker_);
    const bool from_the_future = last_ && last_->round > session_.round();
    if (from_the_future) {
      std::ranges::fill(memory, 0.0F);
      last_.reset();
    }
    if (memory.empty() || last_ || votes_ > 0) return;
    if (from_the_future || session_.round() > 0)
      say(fmt::format("worker {}: begins its memory anew in round {}; {}", worker_, session_.round() + 1,
                      from_the_future ? "what it kept is of later rounds"
                                      : "that of an earlier process is kept with --state DIR"));
  }

  void vote() {
    check_memory();
    ++votes_;
    if (last_ && last_->round == session_.round()) {
      // Asked again, because the session was lost. A second gradient would move the memory twice.
      session_.vote(last_->ballot, last_->loss.samples, last_->loss.loss);
      return;
    }
    const Clock::time_point start = Clock::now();
    double seconds = 0;
    learner_->vote(session_.round(), [&](std::uint32_t, const SignVector* ballot, const BatchLoss& loss) {
      seconds = seconds_since(start);  // here, because the time of sending is not the machine's
      if (ballot == nullptr) return session_.abstain();
      loss_ = loss.loss / loss.samples;
      last_ = {session_.round(), *ballot, loss};
      if (kept_) kept_->save(*last_, learner_->memory(worker_));
      session_.vote(*ballot, loss.samples, loss.loss);
    });
    if (options_.round_seconds > 0) fit_batch(seconds);
  }

  void fit_batch(double seconds) {
    const std::uint32_t next =
        fitting_batch(batch_, seconds, options_.round_seconds, learner_->share(worker_));
    if (next == batch_) return;
    say(fmt::format("round {}: {} took {:.2f} s; takes {} from now on", session_.round() + 1,
                    counted(batch_, "sample"), seconds, next));
    learner_->set_batch(worker_, next);
    batch_ = next;
  }

  void report(std::uint64_t rounds) const {
    const std::uint64_t round = session_.round();
    if (hooks_.progress)
      hooks_.progress({{}, round, rounds, std::nullopt, loss_, round % config_.eval_every == 0});
  }

  const WorkerOptions& options_;
  const TrainHooks& hooks_;
  WorkerSession session_;
  StopWatcher watcher_;

  TrainConfig config_;
  Dataset dataset_;
  std::unique_ptr<Learner> learner_;  // one of these two
  std::unique_ptr<Evaluator> evaluator_;
  std::uint32_t worker_ = 0;
  std::uint32_t batch_ = 0;
  std::optional<double> loss_;
  std::uint64_t votes_ = 0;  // of this process
  std::optional<LastVote> last_;
  std::optional<WorkerMemory> kept_;  // if the memory outlives this process
};

}  // namespace

std::uint32_t fitting_batch(std::uint32_t samples, double seconds, double round_seconds, std::size_t share) {
  const double fits = samples / std::max(seconds, 1e-6) * round_seconds;
  const double next = std::clamp(std::floor(fits), 1.0, static_cast<double>(share));
  // Measured times vary. If the batch changed with each of them, the log would be full of it.
  if (std::abs(next - samples) <= 0.1 * samples) return samples;
  // A measurement of few samples says little, so the batch grows at most eightfold at once.
  return static_cast<std::uint32_t>(std::min(next, 8.0 * samples));
}

TrainResult work(const WorkerOptions& options, const TrainHooks& hooks) {
  use_one_torch_thread();
  return Worker(options, hooks).go();
}

}  // namespace signvote
