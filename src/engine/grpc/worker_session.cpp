#include "signvote/worker_session.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/digest.h"
#include "engine/grpc/protocol.h"
#include "engine/grpc/vote.pb.h"
#include "engine/grpc/vote_client.h"
#include "signvote/error.h"
#include "signvote/wire.h"

namespace signvote {
namespace {

constexpr double kConnectSeconds = 5;
constexpr double kFirstPause = 0.1;  // seconds between two attempts to connect; doubles up to kLongestPause
constexpr double kLongestPause = 2;
constexpr int kMostHangUps = 8;  // in a row, after which a worker that never joined gives up: some 9 s
constexpr const char* kOtherVersion = "run the same signvote on both sides";

VoteClientOptions client_options(const WorkerSessionOptions& options) {
  VoteClientOptions client;
  client.connect = options.connect;
  if (!options.certificate.empty()) client.keys = KeyPair{options.certificate, options.key};
  client.authority = options.authority;
  return client;
}

}  // namespace

class WorkerSession::Impl {
 public:
  explicit Impl(WorkerSessionOptions options)
      : options_(std::move(options)), client_(client_options(options_)) {}

  const JoinedRun& join() {
    while (!known_ && !stopped()) connect();
    return run_;
  }

  Event next(std::span<float> parameters) {
    join();
    while (!stopped()) {
      if (finished_) return Event::finished;
      assert(parameters.size() == run_.parameters);
      parameters_ = parameters;
      if (!joined_) {
        connect();
        continue;
      }
      if (wants_snapshot_ && !fetch_snapshot(parameters)) continue;
      // If a verdict is there already, the round is closed, and a gradient for it would be wasted.
      if (round_ == open_round_ && !voted_ && round_ < run_.rounds && !client_.has_message())
        return Event::vote;
      if (!receive()) continue;
      if (message_.has_verdict()) {
        take_verdict(parameters);
        return Event::stepped;
      }
      if (!message_.has_finished())
        throw EngineError(fmt::format("the server sent something else than a verdict; {}", kOtherVersion));
      while (client_.receive(message_)) continue;  // until the goodbye, because the server waits for it
      finished_ = true;
    }
    return Event::stopped;
  }

  std::uint64_t round() const { return round_; }

  void report(std::optional<double> accuracy, std::optional<double> loss) {
    assert(!voted_ && (accuracy || loss));
    tested_ = {accuracy, loss};
  }

  /// Abstains if `ballot` is null.
  void answer(const SignView* ballot, std::uint32_t samples, double loss) {
    assert(!voted_);
    v1::FromWorker message;
    v1::Ballot& answer = *message.mutable_ballot();
    answer.set_round(round_);
    answer.set_batch(samples);
    answer.set_loss(loss);
    if (round_ % kDigestEvery == 0) answer.set_digest(digest(parameters_));
    if (tested_.accuracy) answer.set_test_accuracy(*tested_.accuracy);
    if (tested_.loss) answer.set_test_loss(*tested_.loss);
    tested_ = {};
    if (ballot != nullptr) {
      encode({MessageKind::ballot, run_.run_id, round_, run_.worker, ballot->size()}, *ballot, bytes_);
      answer.set_message(bytes_.data(), bytes_.size());
    }
    voted_ = true;
    client_.send(message);  // if it fails, the next receive tells why
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    client_.cancel();
  }

 private:
  bool stopped() {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }

  void log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }

  /// Tries once to begin a session, up to the welcome. If that fails, pauses before the next attempt.
  void connect() {
    assert(!joined_);
    if (options_.renew && options_.renew(options_))
      client_.renew({options_.certificate, options_.key}, options_.authority);
    if (client_.begin(std::min(kConnectSeconds, options_.give_up_seconds)) && client_.send(hello()) &&
        client_.receive(message_)) {
      pause_ = kFirstPause;
      last_problem_.clear();
      take_welcome();
      joined_ = true;
    } else {
      lose();
    }
  }

  bool receive() {
    if (client_.receive(message_)) return true;
    lose();
    return false;
  }

  /// The session is over, or never began. Throws if it makes no sense to try again; otherwise waits a
  /// little.
  void lose(const std::string& why = {}) {
    const bool had_joined = std::exchange(joined_, false);
    if (had_joined) away_since_ = Clock::now();  // not since its last word: a round may be long
    SessionEnd end = client_.end();
    if (!why.empty()) end = {SessionEnd::Kind::lost, why};
    if (stopped()) return;
    // Once the server has let this worker in, only its own word keeps the worker out: a proxy, a clock that
    // is wrong or a certificate that is being replaced may be mended. A server that does not want a worker's
    // certificate or name says so by hanging up, and can say no more.
    using Kind = SessionEnd::Kind;
    hang_ups_ = end.kind == Kind::hung_up ? hang_ups_ + 1 : 0;
    if (end.kind == Kind::refused || (!known_ && (end.kind == Kind::unproven || hang_ups_ == kMostHangUps)))
      throw EngineError(end.text);
    if (!had_joined && seconds_since(away_since_) > options_.give_up_seconds)
      throw EngineError(fmt::format("no server at {} for {:.0f} s: {}", options_.connect,
                                    options_.give_up_seconds, end.text));
    if (std::exchange(last_problem_, end.text) != end.text) log(end.text + "; tries again");
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(pause_), [this] { return stopped_; });
    pause_ = std::min(kLongestPause, 2 * pause_);
  }

  v1::FromWorker hello() const {
    v1::FromWorker message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_protocol(kProtocol);
    hello.set_program(options_.program);
    hello.set_name(options_.name);
    hello.set_has_model(last_verdict_.has_value());
    hello.set_run_id(run_.run_id);
    hello.set_round(round_);
    hello.set_last_verdict(last_verdict_.value_or(0));
    return message;
  }

  void take_welcome() {
    if (!message_.has_welcome())
      throw EngineError(fmt::format("the server began without a welcome; {}", kOtherVersion));
    const v1::Welcome& welcome = message_.welcome();
    if (known_ && (welcome.run_id() != run_.run_id || welcome.worker() != run_.worker ||
                   welcome.parameters() != run_.parameters))
      throw EngineError(
          fmt::format("the server at {} now has another run, or another worker's number for this one; start "
                      "this worker again",
                      options_.connect));
    run_ = {welcome.config(), welcome.run_id(), welcome.worker(), welcome.parameters(), welcome.rounds()};
    known_ = true;
    wants_snapshot_ = welcome.snapshot();
    snapshot_checksum_ = welcome.snapshot_checksum();
    if (wants_snapshot_) last_verdict_.reset();
    round_ = welcome.round();
    open_round_ = welcome.open_round();
    voted_ = welcome.voted();
  }

  bool fetch_snapshot(std::span<float> parameters) {
    const auto bytes = std::as_writable_bytes(parameters);
    for (std::size_t have = 0; have < bytes.size();) {
      if (!receive()) return false;
      const std::string& data = message_.chunk().data();
      if (!message_.has_chunk() || data.empty() || data.size() > bytes.size() - have)
        throw EngineError("the server sent a snapshot of another size than the model's");
      std::memcpy(bytes.data() + have, data.data(), data.size());
      have += data.size();
    }
    if (digest(parameters) != snapshot_checksum_) {
      lose("the snapshot that the server sent is damaged");
      return false;
    }
    wants_snapshot_ = false;
    if (round_ == 0) last_verdict_ = 0;  // there is none before the first round
    log(fmt::format("worker {}: holds the model of round {}, round {} is open", run_.worker, round_,
                    open_round_ + 1));
    return true;
  }

  void take_verdict(std::span<float> parameters) {
    const v1::Verdict& verdict = message_.verdict();
    const MessageHeader expected{MessageKind::verdict, run_.run_id, round_, 0, parameters.size()};
    std::string problem;
    if (!decode(std::as_bytes(std::span(verdict.message())), expected, verdict_, problem))
      throw EngineError(fmt::format("the server sent a {}", problem));
    step(parameters, verdict_, Step{verdict.step(), verdict.decay()});
    last_verdict_ = XXH3_64bits(verdict.message().data(), verdict.message().size());
    ++round_;
    open_round_ = verdict.open_round();
    voted_ = false;
    tested_ = {};
  }

  struct Test {
    std::optional<double> accuracy, loss;
  };

  WorkerSessionOptions options_;
  VoteClient client_;
  v1::ToWorker message_;  // received last
  JoinedRun run_;
  bool known_ = false;           // the server has told run_
  bool joined_ = false;          // there is a session
  bool wants_snapshot_ = false;  // its chunks come next
  std::uint64_t snapshot_checksum_ = 0;
  std::span<const float> parameters_;  // those of the last next()
  bool finished_ = false;
  std::optional<std::uint64_t> last_verdict_;  // its checksum; none: the model is a snapshot, or part of one
  std::uint64_t round_ = 0;
  std::uint64_t open_round_ = 0;
  bool voted_ = false;
  Test tested_;  // of the open round's model, not yet sent
  SignVector verdict_;
  std::vector<std::byte> bytes_;

  Clock::time_point away_since_ = Clock::now();  // if there is no session
  double pause_ = kFirstPause;
  int hang_ups_ = 0;          // one after the other
  std::string last_problem_;  // so that it is logged once and not at every attempt

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool stopped_ = false;
};

WorkerSession::WorkerSession(WorkerSessionOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
WorkerSession::~WorkerSession() = default;
const JoinedRun& WorkerSession::join() { return impl_->join(); }
WorkerSession::Event WorkerSession::next(std::span<float> parameters) { return impl_->next(parameters); }
std::uint64_t WorkerSession::round() const { return impl_->round(); }
void WorkerSession::vote(SignView ballot, std::uint32_t samples, double loss) {
  impl_->answer(&ballot, samples, loss);
}
void WorkerSession::abstain() { impl_->answer(nullptr, 0, 0); }
void WorkerSession::report(std::optional<double> accuracy, std::optional<double> loss) {
  impl_->report(accuracy, loss);
}
void WorkerSession::stop() { impl_->stop(); }

}  // namespace signvote
