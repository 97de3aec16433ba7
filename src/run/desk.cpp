#include "run/desk.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "engine/grpc/vote.pb.h"
#include "signvote/error.h"
#include "signvote/wire.h"

namespace signvote {
namespace {

constexpr std::uint32_t kProtocol = 1;
constexpr std::size_t kChunkBytes = 1 << 20;

grpc::ByteBuffer serialised(const v1::ToWorker& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

grpc::ByteBuffer serialised_verdict(std::span<const std::byte> bytes, std::uint64_t open_round) {
  v1::ToWorker message;
  message.mutable_verdict()->set_message(bytes.data(), bytes.size());
  message.mutable_verdict()->set_open_round(open_round);
  return serialised(message);
}

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

Refusal refuse(Refusal::Kind kind, std::string reason, std::string text) {
  return {kind, std::move(reason), std::move(text)};
}

/// What a stranger says of itself, fit for one line of a log.
std::string presentable(std::string text) {
  constexpr std::size_t kLongest = 64;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return text;
}

/// For the metrics: what was wrong with a ballot, in a word.
const char* reason_of(const MessageHeader& expected, std::span<const std::byte> bytes) {
  MessageHeader header;
  std::string problem;
  if (!decode_header(bytes, header, problem) || header.kind != expected.kind) return "malformed";
  if (header.run_id != expected.run_id) return "wrong_run";
  if (header.worker != expected.worker) return "wrong_worker";
  if (header.round != expected.round) return "wrong_round";
  if (header.size != expected.size) return "wrong_size";
  return "malformed";
}

}  // namespace

/// One session. What it has fetched so far; its calls go to the desk.
class VoteDesk::Seat : public Visit {
 public:
  Seat(VoteDesk& owner, std::uint32_t slot, std::string visitor, std::uint64_t number)
      : desk(owner), worker(slot), name(std::move(visitor)), visit(number) {}
  ~Seat() override { desk.leave(*this); }
  std::optional<Refusal> ballot(const v1::Ballot& ballot) override { return desk.answer(*this, ballot); }
  Next next() override { return desk.next(*this); }
  std::optional<Refusal> unwanted() override {
    const std::lock_guard lock(desk.mutex_);
    return desk.unwanted(*this);
  }

  VoteDesk& desk;
  const std::uint32_t worker;
  const std::string name;
  const std::uint64_t visit;
  bool welcomed = false;
  std::shared_ptr<const SnapshotReader> snapshot;  // while it is being fetched
  std::uint64_t offset = 0;                        // in its parameters
  std::uint64_t round = 0;                         // the next verdict to be fetched
  bool told_the_end = false;
};

VoteDesk::VoteDesk(const TrainConfig& config, std::uint64_t parameters, BallotBox& box,
                   const Journal& journal, AllowList allowed, std::vector<std::string> owners,
                   Metrics& metrics, std::function<void(const std::string&)> log)
    : config_(config),
      config_text_(write_config(config)),
      parameters_(parameters),
      box_(box),
      journal_(journal),
      metrics_(metrics),
      log_(std::move(log)),
      allowed_(std::move(allowed)),
      slots_(owners.size()),
      published_(box.round()) {
  for (std::size_t m = 0; m < owners.size(); ++m) slots_[m].owner = owners[m];
}

void VoteDesk::wake_with(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

std::variant<std::unique_ptr<Visit>, Refusal> VoteDesk::join(const std::string& name, const std::string& peer,
                                                             const v1::Hello& hello) {
  if (hello.protocol() != kProtocol)
    return refuse(
        Refusal::Kind::bad_message, "wrong_version",
        fmt::format("'{}' speaks protocol {} where {} is spoken; run the same signvote on both sides", name,
                    hello.protocol(), kProtocol));
  // Looked up first, for it may be read from the disk.
  const bool same_history = hello.has_model() && hello.run_id() == config_.run_id() && is_of_this_run(hello);
  std::unique_ptr<Seat> seat;
  {
    const std::lock_guard lock(mutex_);
    const auto worker = allowed_.find(name);
    if (!worker)
      return refuse(Refusal::Kind::not_allowed, "unknown_worker",
                    fmt::format("'{}' is not on the server's allow-list", name));
    Slot& slot = slots_[*worker];
    seat = std::make_unique<Seat>(*this, *worker, name, ++visits_);
    // What the worker holds is enough if the verdicts since then are there and fewer than a snapshot's
    // 32 bits a parameter and the verdicts since that one.
    const auto latest = journal_.open_snapshot();
    const bool verdicts_only = same_history && hello.round() >= journal_.oldest() &&
                               hello.round() <= published_ && hello.round() + 32 >= latest->round();
    if (!verdicts_only) seat->snapshot = latest;
    seat->round = verdicts_only ? hello.round() : latest->round();
    if (slot.visit == 0)
      metrics_.add("signvote_workers_connected", 1);
    else if (wake_)
      wake_();  // the session before this one learns that it is replaced
    slot.visit = seat->visit;
    slot.visitor = name;
    log_(fmt::format("{} ({}, {}) joins as worker {}, with {}", name, peer, presentable(hello.program()),
                     *worker,
                     verdicts_only ? fmt::format("{} verdicts to fetch", published_ - hello.round())
                                   : fmt::format("the snapshot of round {} to fetch", latest->round())));
  }
  changed_.notify_all();
  return seat;
}

/// A run that was begun anew with the same settings, or whose state came from a backup, has other verdicts.
bool VoteDesk::is_of_this_run(const v1::Hello& hello) const {
  if (hello.round() == 0) return true;  // the seed makes that model, and is one of the settings
  const auto verdict = journal_.verdict(hello.round() - 1);
  return verdict && XXH3_64bits(verdict->data(), verdict->size()) == hello.last_verdict();
}

void VoteDesk::refused(const std::string& peer, const Refusal& refusal) {
  log_(fmt::format("refused {}: {} ({})", peer.empty() ? "somebody" : peer, refusal.text, refusal.reason));
  metrics_.add("signvote_refused_total", 1, fmt::format("reason=\"{}\"", escape_label(refusal.reason)));
}

std::optional<Refusal> VoteDesk::answer(const Seat& seat, const v1::Ballot& ballot) {
  Slot& slot = slots_[seat.worker];
  {
    const std::lock_guard lock(mutex_);
    if (slot.visit != seat.visit) return std::nullopt;  // its session is being ended
    if (const auto refusal = unwanted(seat)) return refusal;
    if (!seat.welcomed)
      return refuse(Refusal::Kind::bad_message, "no_welcome",
                    fmt::format("{}: a ballot before the welcome", seat.name));
    const char* not_now = ballot.round() < published_ || (ballot.round() == published_ && closing_) ? "late"
                          : ballot.round() == published_ && (slot.answering || slot.answer) ? "duplicate"
                                                                                            : nullptr;
    if (not_now != nullptr) {
      // A line in a round: who sends them without end shall not fill the disk. The metrics count all.
      if (std::exchange(slot.grumbled, published_) != published_)
        log_(fmt::format("{}: a {} ballot for round {} is not counted", seat.name, not_now,
                         ballot.round() + 1));
      metrics_.add("signvote_ballots_total", 1, fmt::format("result=\"{}\"", not_now));
      return std::nullopt;
    }
    if (ballot.round() != published_)
      return refuse(Refusal::Kind::bad_message, "wrong_round",
                    fmt::format("{}: a ballot for round {} while round {} is open", seat.name,
                                ballot.round() + 1, published_ + 1));
    slot.answering = true;  // the round is not closed before it is false again
  }
  const auto bytes = as_bytes(ballot.message());
  std::optional<CastBallot> cast;
  std::string problem;
  try {
    cast = CastBallot{seat.worker, ballot.batch(), ballot.loss(), {bytes.begin(), bytes.end()}};
    if (!bytes.empty() && !box_.cast(seat.worker, bytes, problem)) cast.reset();
  } catch (...) {
    done_answering(slot, std::nullopt);
    throw;
  }
  const bool good = cast.has_value();
  done_answering(slot, std::move(cast));
  if (good) return std::nullopt;
  const MessageHeader expected{MessageKind::ballot, config_.run_id(), ballot.round(), seat.worker,
                               parameters_};
  return refuse(Refusal::Kind::bad_message, reason_of(expected, bytes),
                fmt::format("{}: {}", seat.name, problem));
}

void VoteDesk::done_answering(Slot& slot, std::optional<CastBallot> cast) {
  const std::lock_guard lock(mutex_);
  slot.answering = false;
  slot.answer = std::move(cast);
  changed_.notify_all();
  if (!slot.answer) return;
  const std::size_t bytes = slot.answer->message.size();
  metrics_.add("signvote_ballots_total", 1, bytes == 0 ? "result=\"abstained\"" : "result=\"counted\"");
  metrics_.add("signvote_ballot_bytes_total", static_cast<double>(bytes));
}

std::optional<Refusal> VoteDesk::unwanted(const Seat& seat) const {
  if (slots_[seat.worker].visit != seat.visit)
    return refuse(Refusal::Kind::replaced, "replaced",
                  fmt::format("another session took the place of '{}' as worker {}", seat.name, seat.worker));
  if (allowed_.find(seat.name) == seat.worker) return std::nullopt;
  return refuse(
      Refusal::Kind::not_allowed, "no_longer_allowed",
      fmt::format("'{}' is no longer on the server's allow-list for worker {}", seat.name, seat.worker));
}

Visit::Next VoteDesk::next(Seat& seat) {
  std::uint64_t open_round = 0;
  {
    const std::lock_guard lock(mutex_);
    const Slot& slot = slots_[seat.worker];
    if (const auto refusal = unwanted(seat)) return *refusal;
    if (slot.owner != seat.name && !finished_) return Visit::Nothing{};
    open_round = published_;
    if (!seat.welcomed) {
      seat.welcomed = true;
      v1::ToWorker message;
      v1::Welcome& welcome = *message.mutable_welcome();
      welcome.set_config(config_text_);
      welcome.set_run_id(config_.run_id());
      welcome.set_worker(seat.worker);
      welcome.set_parameters(parameters_);
      welcome.set_snapshot(seat.snapshot != nullptr);
      welcome.set_round(seat.round);
      welcome.set_open_round(open_round);
      // Where there is nothing left to vote on it need not compute a gradient.
      welcome.set_voted(slot.answer.has_value() || closing_ || open_round >= config_.rounds);
      return serialised(message);
    }
    if (!seat.snapshot && seat.round + 1 == open_round && newest_.Valid()) {
      ++seat.round;
      metrics_.add("signvote_verdict_bytes_total", static_cast<double>(newest_.Length()));
      return newest_;
    }
    if (finished_ && !seat.snapshot && seat.round == open_round) {
      if (std::exchange(seat.told_the_end, true)) {
        slots_[seat.worker].knows_the_end = true;
        changed_.notify_all();
        return Visit::Goodbye{};
      }
      v1::ToWorker message;
      message.mutable_finished()->set_rounds(open_round);
      return serialised(message);
    }
  }
  try {
    if (seat.snapshot) {
      const std::uint64_t left = seat.snapshot->parameter_bytes() - seat.offset;
      std::vector<std::byte> data(std::min<std::uint64_t>(left, kChunkBytes));
      seat.snapshot->read(seat.offset, data);
      seat.offset += data.size();
      if (data.size() == left) seat.snapshot.reset();
      v1::ToWorker message;
      message.mutable_chunk()->set_data(data.data(), data.size());
      metrics_.add("signvote_snapshot_bytes_total", static_cast<double>(data.size()));
      return serialised(message);
    }
    if (seat.round == open_round) return Visit::Nothing{};
    const auto verdict = journal_.verdict(seat.round);
    if (!verdict)
      return refuse(
          Refusal::Kind::shutting_down, "verdict_dropped",
          fmt::format("{} is so slow that the verdict of round {} was dropped (--keep); it can join again",
                      seat.name, seat.round + 1));
    ++seat.round;
    metrics_.add("signvote_verdict_bytes_total", static_cast<double>(verdict->size()));
    return serialised_verdict(*verdict, open_round);
  } catch (const std::exception& error) {
    return refuse(Refusal::Kind::shutting_down, "journal", error.what());
  }
}

void VoteDesk::leave(const Seat& seat) {
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[seat.worker];
    if (slot.visit != seat.visit) return;
    slot.visit = 0;
    slot.visitor.clear();
    metrics_.add("signvote_workers_connected", -1);
  }
  log_(fmt::format("{} left", seat.name));
}

bool VoteDesk::wait_for_votes(std::uint32_t votes, double seconds) {
  std::unique_lock lock(mutex_);
  const auto strangers = [this] {
    return std::ranges::any_of(slots_, [](const Slot& slot) {
      return slot.visit != 0 && slot.owner != slot.visitor && !slot.answer && !slot.answering;
    });
  };
  const auto enough = [this, votes] {
    const auto voted = [](const Slot& slot) { return slot.answer && !slot.answer->message.empty(); };
    return std::ranges::all_of(slots_, [](const Slot& slot) { return slot.answer.has_value(); }) ||
           std::ranges::count_if(slots_, voted) >= votes;
  };
  changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return enough() || strangers(); });
  return enough();
}

std::vector<std::string> VoteDesk::missing() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, worker] : allowed_.workers())
    if (!slots_[worker].answer) names.push_back(name);
  return names;
}

std::size_t VoteDesk::allowed() {
  const std::lock_guard lock(mutex_);
  return allowed_.workers().size();
}

std::vector<MemberRecord> VoteDesk::newcomers() {
  const std::lock_guard lock(mutex_);
  std::vector<MemberRecord> members;
  for (std::uint32_t m = 0; m < slots_.size(); ++m)
    if (slots_[m].visit != 0 && slots_[m].owner != slots_[m].visitor && !slots_[m].answer &&
        !slots_[m].answering)
      members.push_back({m, slots_[m].visitor});
  return members;
}

void VoteDesk::confirm(const MemberRecord& member) {
  const std::lock_guard lock(mutex_);
  slots_[member.worker].owner = member.name;
}

RoundRecord VoteDesk::close_round() {
  RoundRecord record;
  record.round = box_.round();
  {
    std::unique_lock lock(mutex_);
    closing_ = true;
    changed_.wait(lock, [this] { return std::ranges::none_of(slots_, &Slot::answering); });
    for (Slot& slot : slots_)
      if (slot.answer) record.ballots.push_back(*std::exchange(slot.answer, std::nullopt));
  }
  const auto verdict = box_.close();
  record.verdict.assign(verdict.begin(), verdict.end());
  return record;
}

void VoteDesk::publish(const std::vector<std::byte>& verdict) {
  const std::lock_guard lock(mutex_);
  ++published_;
  closing_ = false;
  newest_ = serialised_verdict(verdict, published_);
}

void VoteDesk::finish() {
  const std::lock_guard lock(mutex_);
  finished_ = true;
}

void VoteDesk::wait_until_all_know(double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] {
    for (std::uint32_t m = 0; m < slots_.size(); ++m)
      if (!slots_[m].knows_the_end && allowed_.find(slots_[m].owner) == m) return false;
    return true;
  });
}

bool VoteDesk::reload_allow_list() {
  const std::lock_guard lock(mutex_);
  try {
    if (!allowed_.reload()) return false;
    log_("the allow-list was changed");
    return true;
  } catch (const ConfigError& error) {
    log_(fmt::format("the changed allow-list is not used: {}", error.what()));
    return false;
  }
}

}  // namespace signvote
