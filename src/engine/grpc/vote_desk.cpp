#include "engine/grpc/vote_desk.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "engine/grpc/protocol.h"
#include "engine/grpc/vote.pb.h"
#include "signvote/error.h"
#include "signvote/wire.h"

namespace signvote {
namespace {

constexpr std::size_t kChunkBytes = 1 << 20;
constexpr double kMostLoss = 1e9;            // of a sample; a model that is so wrong has diverged
constexpr std::size_t kLongestProgram = 64;  // characters of a worker's program name, in the log
// More connections of one name in this time are refused. A worker that is cut off tries twice a second.
constexpr std::size_t kMostHandshakes = 30;
constexpr std::chrono::seconds kHandshakeTime{10};

grpc::ByteBuffer serialised(const v1::ToWorker& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

/// A ToWorker with a verdict. Its large part is copied once, into the slice that all sessions share,
/// because protobuf would copy it three times.
grpc::ByteBuffer serialised_verdict(std::span<const std::byte> bytes, std::uint64_t open_round,
                                    const Step& step) {
  using google::protobuf::internal::WireFormatLite;
  using google::protobuf::io::CodedOutputStream;
  const auto tag = [](int field, WireFormatLite::WireType type) {
    return WireFormatLite::MakeTag(field, type);
  };
  v1::Verdict small;
  small.set_open_round(open_round);
  small.set_step(step.delta);
  small.set_decay(step.decay);
  const std::string head = small.SerializeAsString();
  const auto length = static_cast<std::uint32_t>(bytes.size());
  const std::uint32_t message_tag =
      tag(v1::Verdict::kMessageFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  const std::uint32_t inner =
      static_cast<std::uint32_t>(head.size() + bytes.size() + CodedOutputStream::VarintSize32(message_tag) +
                                 CodedOutputStream::VarintSize32(length));
  std::array<std::uint8_t, 64> prefix;
  std::uint8_t* at = CodedOutputStream::WriteVarint32ToArray(
      tag(v1::ToWorker::kVerdictFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED), prefix.data());
  at = CodedOutputStream::WriteVarint32ToArray(inner, at);
  at = std::ranges::copy(head, at).out;
  at = CodedOutputStream::WriteVarint32ToArray(message_tag, at);
  at = CodedOutputStream::WriteVarint32ToArray(length, at);
  const std::array<grpc::Slice, 2> slices = {
      grpc::Slice(prefix.data(), static_cast<std::size_t>(at - prefix.data())),
      grpc::Slice(bytes.data(), bytes.size())};
  return {slices.data(), slices.size()};
}

Refusal refuse(Refusal::Kind kind, std::string reason, std::string text) {
  return {kind, std::move(reason), std::move(text)};
}

/// One word for the metrics that says what was wrong with a ballot.
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

/// One session, with what it has fetched so far. The desk does its work.
class VoteDesk::WorkerAtDesk : public Session {
 public:
  WorkerAtDesk(VoteDesk& owner, std::uint32_t slot, Identity identity, std::uint64_t count)
      : desk(owner), worker(slot), who(std::move(identity)), number(count) {}
  ~WorkerAtDesk() override { desk.leave(*this); }
  std::optional<Refusal> ballot(v1::Ballot& ballot) override { return desk.answer(*this, ballot); }
  Next next() override { return desk.next(*this); }
  std::optional<Refusal> unwanted() override {
    const std::lock_guard lock(desk.mutex_);
    return desk.unwanted(*this);
  }

  VoteDesk& desk;
  const std::uint32_t worker;
  const Identity who;
  const std::string& name = who.name;
  const std::uint64_t number;
  bool welcomed = false;
  std::shared_ptr<const SnapshotReader> snapshot;  // while it is being fetched
  std::uint64_t offset = 0;                        // in its parameters
  std::uint64_t round = 0;                         // the next verdict to be fetched
  bool told_the_end = false;
};

VoteDesk::VoteDesk(VoteDeskOptions options, BallotBox& box, const Journal& journal, AllowList allowed,
                   const std::vector<std::string>& owners, Metrics& metrics, AuditLog& audit,
                   std::function<void(const std::string&)> log)
    : options_(std::move(options)),
      box_(box),
      journal_(journal),
      metrics_(metrics),
      audit_(audit),
      attendance_(options_.attendance != nullptr ? *options_.attendance : own_attendance_),
      log_(std::move(log)),
      refusals_(log_, audit),
      allow_list_(std::move(allowed)),
      allowed_(allow_list_.workers()),
      slots_(owners.size()),
      published_(box.round()) {
  for (std::size_t m = 0; m < owners.size(); ++m) slots_[m].owner = owners[m];
  attendance_.begin(owners);
}

void VoteDesk::wake_with(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

// --- Joining and leaving -----------------------------------------------------------------------------

std::optional<Refusal> VoteDesk::admit(const Identity& who) {
  const std::lock_guard lock(mutex_);
  if (auto refusal = not_on_list(who)) return refusal;
  auto& recent = slots_[entry_of(who.name)->worker].handshakes;
  const Clock::time_point now = Clock::now();
  while (!recent.empty() && now - recent.front() > kHandshakeTime) recent.pop_front();
  if (recent.size() >= kMostHandshakes)
    return refuse(Refusal::Kind::not_allowed, "too_many_connections",
                  fmt::format("'{}' has connected {} times within {} seconds", who.name, recent.size(),
                              kHandshakeTime.count()));
  recent.push_back(now);
  return std::nullopt;
}

std::optional<Refusal> VoteDesk::not_on_list(const Identity& who) const {
  const AllowedWorker* entry = entry_of(who.name);
  if (entry == nullptr)
    return refuse(Refusal::Kind::not_allowed, "unknown_worker",
                  fmt::format("'{}' is not on the server's allow-list", who.name));
  if (!entry->key.empty() && entry->key != who.key)
    return refuse(Refusal::Kind::not_allowed, "wrong_key",
                  fmt::format("the key of '{}' ({}) is not the one on the server's allow-list", who.name,
                              who.key.empty() ? "none, without TLS" : who.key));
  return std::nullopt;
}

std::variant<std::unique_ptr<Session>, Refusal> VoteDesk::join(const Identity& who, const std::string& peer,
                                                               const v1::Hello& hello) {
  const std::string& name = who.name;
  if (hello.protocol() != kProtocol)
    return refuse(
        Refusal::Kind::bad_message, "wrong_version",
        fmt::format("'{}' speaks protocol {} where {} is spoken; run the same signvote on both sides", name,
                    hello.protocol(), kProtocol));
  {
    const std::lock_guard lock(mutex_);
    if (auto refusal = not_on_list(who)) return *refusal;
  }
  const bool same_history =
      hello.has_model() && hello.run_id() == options_.run_id && is_of_this_run(hello);  // reads the disk
  std::unique_ptr<WorkerAtDesk> session;
  {
    const std::lock_guard lock(mutex_);
    if (auto refusal = not_on_list(who)) return *refusal;
    const std::uint32_t worker = entry_of(name)->worker;
    Slot& slot = slots_[worker];
    session = std::make_unique<WorkerAtDesk>(*this, worker, who, ++sessions_);
    // The worker keeps its model if all verdicts since are there and take no more bytes than the snapshot
    // (as much as 32 verdicts) and the verdicts since it.
    const auto latest = journal_.open_snapshot();
    const bool verdicts_only = same_history && hello.round() >= journal_.oldest() &&
                               hello.round() <= published_ && hello.round() + 32 >= latest->round() &&
                               !slot.wrong_model;
    slot.wrong_model = false;
    if (!verdicts_only) session->snapshot = latest;
    session->round = verdicts_only ? hello.round() : latest->round();
    // A verdict is sent only when it is on the disk, so the disk has lost it since, or was replaced.
    if (hello.has_model() && hello.run_id() == options_.run_id && hello.round() > published_) {
      metrics_.add("signvote_lost_state_total");
      audit_.rounds_lost(who, worker, hello.round(), published_);
      log_(fmt::format(
          "ROUNDS WERE LOST: {} holds the model after {}, but this server knows only {}; is "
          "this an older backup, or does the disk lose what it has synced? The worker is put back "
          "to round {}",
          name, counted(hello.round(), "round"), published_, session->round));
    }
    if (slot.session == 0)
      metrics_.add("signvote_workers_connected", 1);
    else if (wake_)
      wake_();  // the session before this one learns that it is replaced
    slot.session = session->number;
    slot.session_name = name;
    attendance_.joined(worker, name);
    const std::string program = printable(hello.program(), kLongestProgram);
    audit_.joined(who, worker, peer, program);
    log_(fmt::format("{} ({}, {}) joins as worker {}, with {}", name, peer, program, worker,
                     verdicts_only ? counted(published_ - hello.round(), "verdict") + " to fetch"
                                   : fmt::format("the snapshot of round {} to fetch", latest->round())));
  }
  changed_.notify_all();
  return session;
}

/// Compares the worker's last verdict with the journal, because a run that was begun anew with the same
/// settings, or restored from a backup, has other verdicts.
bool VoteDesk::is_of_this_run(const v1::Hello& hello) const {
  if (hello.round() == 0) return true;  // the seed makes that model, and the run's id includes it
  const auto verdict = journal_.verdict(hello.round() - 1);
  return verdict && XXH3_64bits(verdict->data(), verdict->size()) == hello.last_verdict();
}

void VoteDesk::refused(const std::string& peer, const Refusal& refusal) {
  refusals_.refused(peer, refusal, Clock::now());
  metrics_.add("signvote_refused_total", 1, fmt::format("reason=\"{}\"", escape_label(refusal.reason)));
}

void VoteDesk::leave(const WorkerAtDesk& session) {
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[session.worker];
    if (slot.session != session.number) return;
    slot.session = 0;
    slot.session_name.clear();
    attendance_.left(session.worker);
    metrics_.add("signvote_workers_connected", -1);
  }
  audit_.left(session.who, session.worker);
  log_(fmt::format("{} left", session.name));
}

const AllowedWorker* VoteDesk::entry_of(const std::string& name) const {
  const auto found = allowed_.find(name);
  return found == allowed_.end() ? nullptr : &found->second;
}

bool VoteDesk::owns(const std::string& name, std::uint32_t slot) const {
  const AllowedWorker* entry = entry_of(name);
  return entry != nullptr && entry->worker == slot;
}

std::optional<Refusal> VoteDesk::unwanted(const WorkerAtDesk& session) const {
  if (slots_[session.worker].session != session.number)
    return refuse(
        Refusal::Kind::replaced, "replaced",
        fmt::format("another session took the place of '{}' as worker {}", session.name, session.worker));
  if (slots_[session.worker].wrong_model)
    return refuse(
        Refusal::Kind::shutting_down, "wrong_model",
        fmt::format("'{}' has another model than the server; it gets the snapshot when it comes again",
                    session.name));
  if (owns(session.name, session.worker)) return not_on_list(session.who);
  return refuse(Refusal::Kind::not_allowed, "no_longer_allowed",
                fmt::format("'{}' is no longer on the server's allow-list for worker {}", session.name,
                            session.worker));
}

// --- A session's ballot --------------------------------------------------------------------------------

std::optional<Refusal> VoteDesk::answer(const WorkerAtDesk& session, v1::Ballot& ballot) {
  bool ignored = false;
  if (const auto refusal = not_now(session, ballot, ignored); refusal || ignored) return refusal;
  Slot& slot = slots_[session.worker];
  auto refusal = nonsense_test(session, ballot);
  if (!refusal) refusal = nonsense(session, ballot);
  if (refusal) {
    done_checking(slot, std::nullopt);
    return refusal;
  }
  std::optional<CastBallot> cast;
  std::string problem;
  try {
    const auto bytes = std::as_bytes(std::span(ballot.message()));
    cast = CastBallot{session.worker, ballot.batch(), ballot.loss(), {bytes.begin(), bytes.end()}};
    if (!bytes.empty() && !box_.cast(session.worker, bytes, problem)) cast.reset();
  } catch (...) {
    done_checking(slot, std::nullopt);
    throw;
  }
  if (cast) {
    Answer answer;
    answer.voted = !cast->message.empty();
    if (answer.voted) answer.loss = {cast->batch, cast->loss};
    if (ballot.has_digest()) answer.digest = ballot.digest();
    answer.to_take = std::move(cast);
    if (ballot.has_test_accuracy() || ballot.has_test_loss()) {
      answer.test.emplace().by = session.name;
      if (ballot.has_test_accuracy()) answer.test->accuracy = ballot.test_accuracy();
      if (ballot.has_test_loss()) answer.test->loss = ballot.test_loss();
    }
    done_checking(slot, std::move(answer));
    return std::nullopt;
  }
  done_checking(slot, std::nullopt);
  const MessageHeader expected{MessageKind::ballot, options_.run_id, ballot.round(), session.worker,
                               options_.parameters};
  return refuse(Refusal::Kind::bad_message, reason_of(expected, std::as_bytes(std::span(ballot.message()))),
                fmt::format("{}: {}", session.name, problem));
}

/// What a worker says of its batch cannot be checked, but it must be possible: it is in the run's record.
std::optional<Refusal> VoteDesk::nonsense(const WorkerAtDesk& session, const v1::Ballot& ballot) const {
  if (ballot.message().empty()) return std::nullopt;
  if (!options_.batches.empty() && ballot.batch() != options_.batches[session.worker])
    return refuse(Refusal::Kind::bad_message, "wrong_batch",
                  fmt::format("{}: a batch of {} where the settings say {}; leave out its --batch, or start "
                              "the server with --own-batches",
                              session.name, ballot.batch(), options_.batches[session.worker]));
  if (ballot.batch() == 0 || ballot.batch() > options_.most_samples)
    return refuse(Refusal::Kind::bad_message, "wrong_batch",
                  fmt::format("{}: a batch of {} where there are {} samples", session.name, ballot.batch(),
                              options_.most_samples));
  if (!(std::abs(ballot.loss()) <= kMostLoss * ballot.batch()))
    return refuse(Refusal::Kind::bad_message, "wrong_loss",
                  fmt::format("{}: a loss of {} for {}", session.name, ballot.loss(),
                              counted(ballot.batch(), "sample")));
  return std::nullopt;
}

std::optional<Refusal> VoteDesk::nonsense_test(const WorkerAtDesk& session, const v1::Ballot& ballot) const {
  if (!ballot.has_test_accuracy() && !ballot.has_test_loss()) return std::nullopt;
  if (!options_.takes_tests)
    return refuse(
        Refusal::Kind::bad_message, "unwanted_test",
        fmt::format("{}: a report on the model, which this server tests itself; leave it out", session.name));
  const double accuracy = ballot.test_accuracy(), loss = ballot.test_loss();  // 0 if it is not there
  if (!(accuracy >= 0 && accuracy <= 1 && std::abs(loss) <= kMostLoss))
    return refuse(
        Refusal::Kind::bad_message, "wrong_test",
        fmt::format("{}: a report on the model of accuracy {} and loss {}", session.name, accuracy, loss));
  return std::nullopt;
}

/// Decides before decoding whether a ballot is refused (the result) or `ignored`. Otherwise its slot is
/// marked as being checked, and close_round waits for that.
std::optional<Refusal> VoteDesk::not_now(const WorkerAtDesk& session, const v1::Ballot& ballot,
                                         bool& ignored) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[session.worker];
  ignored = slot.session != session.number;  // another session has replaced this one
  if (ignored) return std::nullopt;
  if (auto refusal = unwanted(session)) return refusal;
  if (!session.welcomed)
    return refuse(Refusal::Kind::bad_message, "no_welcome",
                  fmt::format("{}: a ballot before the welcome", session.name));
  const bool of_this_round = ballot.round() == published_;
  const bool late = ballot.round() < published_ || (of_this_round && closing_);
  const bool duplicate = of_this_round && (slot.checking || slot.answer);
  if (late || duplicate) {
    const char* what = late ? "late" : "duplicate";
    // One line a round, because a worker that sends them without end must not fill the disk. The metrics
    // count all.
    if (std::exchange(slot.complained, published_) != published_)
      log_(
          fmt::format("{}: a {} ballot for round {} is not counted", session.name, what, ballot.round() + 1));
    metrics_.add("signvote_ballots_total", 1, fmt::format("result=\"{}\"", what));
    ignored = true;
    return std::nullopt;
  }
  if (!of_this_round)
    return refuse(Refusal::Kind::bad_message, "wrong_round",
                  fmt::format("{}: a ballot {} ahead of round {}, which is open", session.name,
                              counted(ballot.round() - published_, "round"), published_ + 1));
  slot.checking = true;
  return std::nullopt;
}

/// `answer`: none if it was refused.
void VoteDesk::done_checking(Slot& slot, std::optional<Answer> answer) {
  {
    const std::lock_guard lock(mutex_);
    slot.checking = false;
    if (answer) {
      metrics_.add("signvote_ballots_total", 1,
                   answer->voted ? "result=\"counted\"" : "result=\"abstained\"");
      metrics_.add("signvote_ballot_bytes_total", static_cast<double>(answer->to_take->message.size()));
      const std::uint32_t samples = answer->loss.samples;
      if (answer->voted && std::exchange(slot.batch, samples) != samples && options_.batches.empty())
        log_(fmt::format("{} votes with {} from round {} on", slot.owner, counted(samples, "sample"),
                         published_ + 1));
      attendance_.answered(answer->to_take->worker);
      slot.answer = std::move(answer);
    }
  }
  changed_.notify_all();
}

// --- What a session fetches ----------------------------------------------------------------------------

Session::Next VoteDesk::next(WorkerAtDesk& session) {
  std::uint64_t open_round = 0;
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[session.worker];
    if (const auto refusal = unwanted(session)) return *refusal;
    if (slot.owner != session.name && !finished_) return Session::Nothing{};
    open_round = published_;
    if (!std::exchange(session.welcomed, true)) return welcome(session);
    if (!session.snapshot && session.round + 1 == open_round && newest_.Valid()) {
      ++session.round;
      metrics_.add("signvote_verdict_bytes_total", static_cast<double>(newest_.Length()));
      return newest_;
    }
    if (!session.snapshot && session.round == open_round) {
      if (!finished_) return Session::Nothing{};
      if (std::exchange(session.told_the_end, true)) {
        slot.heard_finish = true;
        changed_.notify_all();
        return Session::Goodbye{};
      }
      v1::ToWorker message;
      message.mutable_finished()->set_rounds(open_round);
      return serialised(message);
    }
  }
  try {
    return session.snapshot ? next_chunk(session) : next_verdict(session, open_round);
  } catch (const std::exception& error) {
    return refuse(Refusal::Kind::shutting_down, "journal", error.what());
  }
}

grpc::ByteBuffer VoteDesk::welcome(const WorkerAtDesk& session) const {
  v1::ToWorker message;
  v1::Welcome& welcome = *message.mutable_welcome();
  welcome.set_config(options_.settings);
  welcome.set_run_id(options_.run_id);
  welcome.set_worker(session.worker);
  welcome.set_parameters(options_.parameters);
  welcome.set_rounds(options_.rounds);
  welcome.set_snapshot(session.snapshot != nullptr);
  if (session.snapshot) welcome.set_snapshot_checksum(session.snapshot->parameter_checksum());
  welcome.set_round(session.round);
  welcome.set_open_round(published_);
  // If there is nothing left to vote on, the worker need not compute a gradient.
  welcome.set_voted(slots_[session.worker].answer.has_value() || closing_ || published_ >= options_.rounds);
  return serialised(message);
}

Session::Next VoteDesk::next_chunk(WorkerAtDesk& session) {
  const std::uint64_t left = session.snapshot->parameter_bytes() - session.offset;
  std::vector<std::byte> data(std::min<std::uint64_t>(left, kChunkBytes));
  session.snapshot->read(session.offset, data);
  session.offset += data.size();
  if (data.size() == left) session.snapshot.reset();
  v1::ToWorker message;
  message.mutable_chunk()->set_data(data.data(), data.size());
  metrics_.add("signvote_snapshot_bytes_total", static_cast<double>(data.size()));
  return serialised(message);
}

Session::Next VoteDesk::next_verdict(WorkerAtDesk& session, std::uint64_t open_round) {
  const auto verdict = journal_.verdict(session.round);
  if (!verdict)
    return refuse(
        Refusal::Kind::shutting_down, "verdict_dropped",
        fmt::format("{} is so slow that the verdict of round {} was dropped (--keep); it can join again",
                    session.name, session.round + 1));
  metrics_.add("signvote_verdict_bytes_total", static_cast<double>(verdict->size()));
  return serialised_verdict(*verdict, open_round, options_.step_of(session.round++));
}

// --- The server's thread -------------------------------------------------------------------------------

bool VoteDesk::wait_for_votes(std::uint32_t votes, double seconds) {
  std::unique_lock lock(mutex_);
  const auto enough = [this, votes] {
    const auto voted = [](const Slot& slot) { return slot.answer && slot.answer->voted; };
    return std::ranges::all_of(slots_, [](const Slot& slot) { return slot.answer.has_value(); }) ||
           std::ranges::count_if(slots_, voted) >= votes;
  };
  const auto something_to_do = [this] {
    return std::ranges::any_of(slots_, [](const Slot& slot) {
      return slot.waits_for_owner() || (slot.answer && slot.answer->to_take);
    });
  };
  changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                    [&] { return enough() || something_to_do(); });
  return enough();
}

std::vector<CastBallot> VoteDesk::take_ballots() {
  const std::lock_guard lock(mutex_);
  std::vector<CastBallot> ballots;
  for (Slot& slot : slots_)
    if (slot.answer && slot.answer->to_take)
      ballots.push_back(*std::exchange(slot.answer->to_take, std::nullopt));
  return ballots;
}

std::vector<std::string> VoteDesk::missing() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, entry] : allowed_)
    if (!slots_[entry.worker].answer) names.push_back(name);
  return names;
}

std::vector<MemberRecord> VoteDesk::newcomers() {
  const std::lock_guard lock(mutex_);
  std::vector<MemberRecord> members;
  for (std::uint32_t m = 0; m < slots_.size(); ++m)
    if (slots_[m].waits_for_owner()) members.push_back({m, slots_[m].session_name});
  return members;
}

bool VoteDesk::confirm(const MemberRecord& member) {
  const std::lock_guard lock(mutex_);
  const std::string before = std::exchange(slots_[member.worker].owner, member.name);
  return !before.empty() && before != member.name;
}

std::vector<std::string> VoteDesk::owners() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const Slot& slot : slots_) names.push_back(slot.owner);
  return names;
}

void VoteDesk::close_round() {
  std::unique_lock lock(mutex_);
  closing_ = true;
  changed_.wait(lock, [this] { return std::ranges::none_of(slots_, &Slot::checking); });
}

VoteDesk::ClosedRound VoteDesk::closed_round() {
  const std::lock_guard lock(mutex_);
  ClosedRound closed;
  closed.losses.resize(slots_.size());
  for (std::uint32_t m = 0; m < slots_.size(); ++m) {
    if (!slots_[m].answer) continue;
    closed.answered.push_back(m);
    closed.losses[m] = slots_[m].answer->loss;
    if (slots_[m].answer->voted) ++closed.voted;
    if (slots_[m].answer->test) closed.tests.push_back(*slots_[m].answer->test);
  }
  return closed;
}

void VoteDesk::compare_models(std::uint64_t digest) {
  const std::lock_guard lock(mutex_);
  std::size_t right = 0;
  std::size_t wrong = 0;
  for (Slot& slot : slots_) {
    if (!slot.answer || !slot.answer->digest) continue;
    const bool right_one = *slot.answer->digest == digest;
    attendance_.model_compared(static_cast<std::uint32_t>(&slot - slots_.data()), right_one);
    if (right_one) {
      slot.right_model = published_;
      ++right;
      continue;
    }
    ++wrong;
    slot.wrong_model = true;
    metrics_.add("signvote_wrong_models_total", 1, fmt::format("worker=\"{}\"", escape_label(slot.owner)));
    log_(fmt::format(
        "{} has another model than the server in round {}: its ballots since round {} are suspect",
        slot.owner, published_ + 1, slot.right_model + 1));
  }
  if (wrong > right)
    log_(
        fmt::format("{} of {} models differ from the server's, which may be the wrong one: start it again, "
                    "because the journal has the right one",
                    wrong, wrong + right));
}

void VoteDesk::publish(std::span<const std::byte> verdict) {
  const std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) slot.answer.reset();
  attendance_.round_opened();
  const Step step = options_.step_of(published_++);
  closing_ = false;
  newest_ = serialised_verdict(verdict, published_, step);
}

void VoteDesk::finish() {
  const std::lock_guard lock(mutex_);
  finished_ = true;
}

bool VoteDesk::wait_until_all_know(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] {
    for (std::uint32_t m = 0; m < slots_.size(); ++m)
      if (!slots_[m].heard_finish && owns(slots_[m].owner, m)) return false;
    return true;
  });
}

bool VoteDesk::reload_allow_list() {
  try {
    if (!allow_list_.reload()) return false;
  } catch (const ConfigError& error) {
    log_(fmt::format("the changed allow-list is not used: {}", error.what()));
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    shut_out_ = !std::ranges::all_of(allowed_, [this](const auto& entry) {
      const auto now = allow_list_.workers().find(entry.first);
      return now != allow_list_.workers().end() && now->second == entry.second;
    });
    allowed_ = allow_list_.workers();
  }
  log_("the allow-list was changed");
  return true;
}

}  // namespace signvote
