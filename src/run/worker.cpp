#include "run/worker.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "engine/grpc/vote.pb.h"
#include "learn/dataset.h"
#include "run/learner.h"
#include "signvote/error.h"
#include "signvote/wire.h"

namespace signvote {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Makes a client that waits for the server give up waiting when the user asks for it.
class StopWatcher {
 public:
  StopWatcher(const std::atomic<bool>* stop, VoteClient& client)
      : thread_([this, stop, &client] {
          while (!done_) {
            if (stop != nullptr && *stop) client.cancel();
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
          }
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
      : options_(options), hooks_(hooks), client_(options.client), watcher_(hooks.stop, client_) {}

  TrainResult go() {
    Clock::time_point last_contact = Clock::now();
    double pause = 0.1;
    while (!stop_requested()) {
      const std::uint64_t before = messages_;
      if (client_.begin(5)) session();
      const SessionEnd end = client_.end();
      if (finished_) return {true, round_};
      if (stop_requested()) break;
      if (end.kind == SessionEnd::Kind::refused) throw EngineError(end.text);
      if (messages_ != before) {
        last_contact = Clock::now();
        pause = 0.1;
      }
      if (seconds_since(last_contact) > options_.give_up_seconds)
        throw EngineError(fmt::format("no server at {} for {:.0f} seconds: {}", options_.client.connect,
                                      options_.give_up_seconds, end.text));
      if (end.text != last_problem_) say(fmt::format("{}; tries again", end.text));
      last_problem_ = end.text;
      std::this_thread::sleep_for(std::chrono::duration<double>(pause));
      pause = std::min(2.0, 2 * pause);
    }
    return {false, round_};
  }

 private:
  bool stop_requested() const { return hooks_.stop != nullptr && *hooks_.stop; }
  void say(const std::string& line) const {
    if (hooks_.warn) hooks_.warn(line);
  }

  /// One session, from hello until it ends for whatever reason.
  void session() {
    if (!client_.send(hello()) || !receive() || !take_welcome()) return;
    while (!stop_requested() && !finished_) {
      // A verdict that is there already tells that the round is closed: a gradient for it would be in vain.
      if (round_ == open_round_ && !voted_ && round_ < config_.rounds && !client_.has_message()) {
        vote();
        voted_ = true;
      }
      if (!receive()) return;
      if (message_.has_finished()) {
        finished_ = true;
        while (receive()) continue;  // until the goodbye: the server waits for who hangs up before it
      } else if (message_.has_verdict()) {
        take_verdict();
      } else {
        throw EngineError(
            "the server sent something else than a verdict; run the same signvote on both sides");
      }
    }
  }

  v1::FromWorker hello() const {
    v1::FromWorker message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_protocol(1);
    hello.set_program(options_.program);
    hello.set_name(options_.name);
    hello.set_has_model(learner_ != nullptr && last_verdict_.has_value());
    hello.set_run_id(learner_ ? config_.run_id() : 0);
    hello.set_round(round_);
    hello.set_last_verdict(last_verdict_.value_or(0));
    return message;
  }

  bool receive() {
    if (!client_.receive(message_)) return false;
    ++messages_;
    last_problem_.clear();
    return true;
  }

  /// The settings, the worker's number, and the model if the server has a newer one.
  bool take_welcome() {
    if (!message_.has_welcome())
      throw EngineError("the server began without a welcome; run the same signvote on both sides");
    const v1::Welcome welcome = message_.welcome();
    if (!learner_) prepare(welcome);
    if (welcome.run_id() != config_.run_id() || welcome.worker() != worker_)
      throw EngineError(
          fmt::format("the server at {} now has another run, or another worker's number for this one; start "
                      "this worker again",
                      options_.client.connect));
    TrainConfig now;
    parse_config(welcome.config(), "the server's settings", now);
    config_.rounds = now.rounds;  // the one thing that a server started again may have changed
    open_round_ = welcome.open_round();
    voted_ = welcome.voted();
    if (welcome.snapshot()) {
      last_verdict_.reset();
      const auto bytes = std::as_writable_bytes(learner_->replicas().parameters());
      for (std::size_t have = 0; have < bytes.size();) {
        if (!receive()) return false;
        const std::string& data = message_.chunk().data();
        if (!message_.has_chunk() || data.empty() || data.size() > bytes.size() - have)
          throw EngineError("the server sent a snapshot of another size than the model's");
        std::memcpy(bytes.data() + have, data.data(), data.size());
        have += data.size();
      }
      if (welcome.round() == 0) last_verdict_ = 0;  // there is none, and need not be
    }
    round_ = welcome.round();
    say(fmt::format("worker {}: holds the model of round {}, round {} is open", worker_, round_,
                    open_round_ + 1));
    return true;
  }

  void prepare(const v1::Welcome& welcome) {
    parse_config(welcome.config(), "the server's settings", config_);
    config_.data = options_.data;
    config_.threads = options_.threads;
    config_.out = "unused";
    resolve(config_);
    worker_ = welcome.worker();
    if (worker_ >= *config_.workers)
      throw EngineError(
          fmt::format("the server gave this worker the number {} of {}", worker_, *config_.workers));
    dataset_ = load_dataset(config_.dataset, config_.data_folder());
    auto learner = std::make_unique<Learner>(config_, dataset_, std::vector{worker_}, hooks_.warn);
    if (welcome.parameters() != learner->replicas().size())
      throw EngineError(fmt::format(
          "the server's model has {} parameters, this worker's {}; run the same signvote on both sides",
          welcome.parameters(), learner->replicas().size()));
    const std::size_t share = learner->share(worker_);
    batch_ = config_.batch_sizes()[worker_];
    if (options_.batch) batch_ = *options_.batch;
    if (options_.round_seconds > 0) batch_ = static_cast<std::uint32_t>(std::min<std::size_t>(64, share));
    if (batch_ > share)
      throw ConfigError(
          fmt::format("--batch is {}, but worker {} holds only {} samples", batch_, worker_, share));
    learner->set_batch(worker_, batch_);
    learner_ = std::move(learner);
    say(fmt::format("worker {} of {}: {} on {} with {} samples a round of {}, {} rounds", worker_,
                    *config_.workers, config_.model, config_.dataset,
                    options_.round_seconds > 0 ? fmt::format("what fits {} s", options_.round_seconds)
                                               : fmt::format("{}", batch_),
                    share, config_.rounds));
  }

  void vote() {
    const Clock::time_point start = Clock::now();
    double seconds = 0;
    learner_->vote(round_, [&](std::uint32_t worker, const SignVector* signs, double loss) {
      v1::FromWorker message;
      v1::Ballot& ballot = *message.mutable_ballot();
      ballot.set_round(round_);
      ballot.set_batch(batch_);
      ballot.set_loss(loss);
      if (signs != nullptr) {
        encode({MessageKind::ballot, config_.run_id(), round_, worker, signs->size()}, *signs, bytes_);
        ballot.set_message(bytes_.data(), bytes_.size());
      }
      loss_ = loss / batch_;
      seconds = seconds_since(start);  // the link's time is not the machine's
      client_.send(message);           // if it cannot be sent, receive tells
    });
    if (options_.round_seconds > 0) {
      const std::uint32_t next =
          fitting_batch(batch_, seconds, options_.round_seconds, learner_->share(worker_));
      if (next != batch_) {
        say(fmt::format("round {}: {} samples took {:.2f} s; takes {} from now on", round_ + 1, batch_,
                        seconds, next));
        learner_->set_batch(worker_, next);
        batch_ = next;
      }
    }
  }

  void take_verdict() {
    const v1::Verdict& verdict = message_.verdict();
    const MessageHeader expected{MessageKind::verdict, config_.run_id(), round_, 0,
                                 learner_->replicas().size()};
    std::string problem;
    if (!decode(std::as_bytes(std::span(verdict.message())), expected, verdict_, problem))
      throw EngineError(fmt::format("the server sent a {}", problem));
    learner_->step(verdict_);
    last_verdict_ = XXH3_64bits(verdict.message().data(), verdict.message().size());
    ++round_;
    open_round_ = verdict.open_round();
    voted_ = false;
    if (hooks_.progress)
      hooks_.progress({{}, round_, config_.rounds, std::nullopt, loss_, round_ % config_.eval_every == 0});
  }

  const WorkerOptions& options_;
  const TrainHooks& hooks_;
  VoteClient client_;
  StopWatcher watcher_;
  v1::ToWorker message_;
  std::uint64_t messages_ = 0;  // received
  std::string last_problem_;    // said once, not at every try

  TrainConfig config_;
  Dataset dataset_;
  std::unique_ptr<Learner> learner_;  // once a server has told what is trained
  std::uint32_t worker_ = 0;
  std::uint32_t batch_ = 0;
  std::optional<std::uint64_t> last_verdict_;  // its checksum; none: the model is the snapshot, or part of it
  std::uint64_t round_ = 0;
  std::uint64_t open_round_ = 0;
  bool voted_ = false;
  bool finished_ = false;
  std::optional<double> loss_;
  SignVector verdict_;
  std::vector<std::byte> bytes_;
};

}  // namespace

std::uint32_t fitting_batch(std::uint32_t samples, double seconds, double round_seconds, std::size_t share) {
  const double fits = samples / std::max(seconds, 1e-6) * round_seconds;
  const double next = std::clamp(std::floor(fits), 1.0, static_cast<double>(share));
  // Measured times vary; a batch that changed with each of them would only be noise in the log.
  if (std::abs(next - samples) <= 0.1 * samples) return samples;
  // A first measurement of few samples says little: at most eight times as many.
  return static_cast<std::uint32_t>(std::min(next, 8.0 * samples));
}

TrainResult work(const WorkerOptions& options, const TrainHooks& hooks) {
  use_one_torch_thread();
  return Worker(options, hooks).go();
}

}  // namespace signvote
