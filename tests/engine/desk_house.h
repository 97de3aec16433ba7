// What the tests of the desk share: a server's parts around a real desk, with the test as the server's own
// thread; workers on real sessions; and a tally that was told the same ballots, to judge the verdicts.
#pragma once

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/grpc/allow_list.h"
#include "engine/grpc/server_engine.h"
#include "engine/grpc/vote_desk.h"
#include "engine/replay.h"
#include "engine/vote_fakes.h"
#include "journal/journal.h"
#include "report/metrics.h"
#include "signvote/ballot_box.h"
#include "signvote/tally.h"
#include "signvote/wire.h"
#include "tally/votes.h"

namespace signvote {

struct HouseOptions {
  std::size_t size = 1000;
  std::uint32_t workers = 3;
  Method method = Method::it;
  bool tls = false;
  std::optional<std::string> allow = {};  // the text of an allow-list
  bool all_known = true;                  // worker-0 and so on own their slots already
};

class DeskHouse {
  std::mt19937_64 random_{1};
  std::mutex log_mutex_;  // before the server, which logs to the last
  std::vector<std::string> log_;

 public:
  explicit DeskHouse(const HouseOptions& options = {})
      : parameters(options.size, 0.0F),
        tally(tally_options(options)),
        judge(tally_options(options)),
        box(std::make_unique<BallotBox>(tally, run_id)) {
    declare_server_metrics(metrics);
    std::vector<std::string> owners(options.workers);
    if (options.all_known && !options.allow)
      for (std::uint32_t m = 0; m < options.workers; ++m) owners[m] = name(m);
    if (options.allow) set_allowed(*options.allow);
    Journal::create(folder / "journal", snapshot(owners));
    journal = std::make_unique<Journal>(folder / "journal", Journal::Mode::append,
                                        [](const std::string& line) { ADD_FAILURE() << line; });
    desk = std::make_unique<VoteDesk>(
        desk_options(), *box, *journal,
        AllowList(options.allow ? std::optional(folder / "allow.toml") : std::nullopt, options.workers),
        owners, metrics, audit, [this](const std::string& line) {
          const std::lock_guard lock(log_mutex_);
          log_.push_back(line);
        });
    VoteServerOptions listen = options.tls ? server_options() : plain_options();
    listen.hello_seconds = 600;
    listen.largest_message = most_message_bytes(options.size);
    server = std::make_unique<VoteServer>(listen, *desk);
    desk->wake_with([this] { server->wake(); });
  }

  static VoteServerOptions plain_options() {
    VoteServerOptions options;
    options.listen = "127.0.0.1:0";
    options.largest_message = kLargest;
    options.workers = 10;
    return options;
  }

  static std::string name(std::uint32_t worker) { return "worker-" + std::to_string(worker); }

  void set_allowed(const std::string& text) { write_file_atomically(folder / "allow.toml", text); }

  // --- What the server's thread does -------------------------------------------------------------

  /// Waits for newcomers and gives them their slots, as the server does.
  void admit(std::size_t count = 1) {
    std::vector<MemberRecord> newcomers;
    ASSERT_TRUE(eventually([&] { return (newcomers = desk->newcomers()).size() >= count; }));
    for (const MemberRecord& member : newcomers) {
      journal->append(member);
      if (desk->confirm(member)) tally.forget(member.worker);
    }
    server->wake();
  }

  /// As the desk's, taking ballots as they come.
  bool wait_for_votes(std::uint32_t wanted, double seconds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (true) {
      take_ballots();
      const std::chrono::duration<double> left = deadline - std::chrono::steady_clock::now();
      if (desk->wait_for_votes(wanted, std::max(0.0, left.count()))) return true;
      if (left.count() <= 0 || !desk->newcomers().empty()) return false;
    }
  }

  /// Closes the round when so many have answered; its verdict must be that of `votes`. Publishes it.
  RoundRecord close(std::uint32_t answers) {
    EXPECT_TRUE(wait_for_votes(answers, kConnectSeconds));
    RoundRecord record = decide();
    publish(record);
    return record;
  }

  RoundRecord decide() {
    RoundRecord record = close_unjudged();
    std::vector<std::optional<SignView>> present(tally.options().workers);
    for (const auto& [worker, signs] : votes) present[worker] = signs;
    SignVector expected, decided;
    judge.decide(present, expected);
    votes.clear();
    std::string problem;
    EXPECT_TRUE(decode(record.verdict, verdict_header(record.round), decided, problem)) << problem;
    EXPECT_TRUE(decided == expected) << "another verdict than the honest ballots give";
    step(parameters, expected, step_of(record.round));
    return record;
  }

  /// Decides on whatever has come.
  RoundRecord close_unjudged() {
    RoundRecord record{.round = box->round(), .ballots = {}, .verdict = {}};
    desk->close_round();
    take_ballots();
    record.ballots = std::exchange(taken_, {});
    std::ranges::sort(record.ballots, {}, &CastBallot::worker);
    const VoteDesk::ClosedRound closed = desk->closed_round();
    EXPECT_TRUE(std::ranges::equal(closed.answered, record.ballots, {}, {}, &CastBallot::worker));
    const auto verdict = box->close();
    record.verdict.assign(verdict.begin(), verdict.end());
    return record;
  }

  void publish(const RoundRecord& record) {
    std::vector<std::uint32_t> counted;
    for (const CastBallot& ballot : record.ballots) {
      journal->append(record.round, ballot);
      counted.push_back(ballot.worker);
    }
    journal->append(record.round, counted, record.verdict);
    desk->publish(record.verdict);
    server->wake();
  }

  /// What has come in the open round is lost, as with a server that is killed.
  void lose_open_round() {
    votes.clear();
    taken_.clear();
  }

  void save(std::uint64_t keep = UINT64_MAX) {
    journal->take_snapshot(snapshot(desk->owners()), keep, step_of);
  }

  // --- Messages ----------------------------------------------------------------------------------

  MessageHeader ballot_header(std::uint32_t worker, std::uint64_t round) const {
    return {MessageKind::ballot, run_id, round, worker, parameters.size()};
  }
  MessageHeader verdict_header(std::uint64_t round) const {
    return {MessageKind::verdict, run_id, round, 0, parameters.size()};
  }
  SignVector random_signs(std::size_t size) { return testing::random_signs(size, 0, random_); }
  SignVector random_signs() { return random_signs(parameters.size()); }

  static std::string encoded(const MessageHeader& header, const SignVector& signs) {
    std::vector<std::byte> bytes;
    encode(header, signs, bytes);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  v1::FromWorker good_ballot(std::uint32_t worker, std::uint64_t round, const SignVector& signs) const {
    return ballot(round, encoded(ballot_header(worker, round), signs));
  }

  // --- What was seen -----------------------------------------------------------------------------

  /// A line of /metrics, e.g. signvote_ballots_total{result="late"}; 0 if it is not there.
  double metric(const std::string& line) const {
    std::istringstream text(metrics.text());
    for (std::string found; std::getline(text, found);)
      if (found.starts_with(line + " ")) return std::stod(found.substr(line.size()));
    return 0;
  }
  double ballots(const std::string& result) const {
    return metric("signvote_ballots_total{result=\"" + result + "\"}");
  }
  /// By reason, all there are.
  std::map<std::string, double> refusals() const {
    std::map<std::string, double> found;
    std::istringstream text(metrics.text());
    const std::string prefix = "signvote_refused_total{reason=\"";
    for (std::string line; std::getline(text, line);)
      if (line.starts_with(prefix))
        found[line.substr(prefix.size(), line.find('"', prefix.size()) - prefix.size())] =
            std::stod(line.substr(line.rfind(' ')));
    return found;
  }
  std::vector<std::string> log(const std::string& words = "") {
    const std::lock_guard lock(log_mutex_);
    std::vector<std::string> found;
    for (const std::string& line : log_)
      if (line.find(words) != std::string::npos) found.push_back(line);
    return found;
  }

  VoteDeskOptions desk_options() const {
    return {run_id, "settings = 1", parameters.size(), 1000, step_of, {}, 60, true};
  }

  /// Another one each round, so that a wrong round's would be seen.
  static Step step_of(std::uint64_t round) { return {0.5F / static_cast<float>(round + 1), 0.125F}; }

  TemporaryFolder folder;
  const std::uint64_t run_id = 77;
  std::vector<float> parameters;
  Tally tally;
  Tally judge;                                // told what honest workers voted, and nothing else
  std::map<std::uint32_t, SignVector> votes;  // in the open round, by honest workers
  std::unique_ptr<BallotBox> box;
  Metrics metrics;
  AuditLog audit{folder / "audit.log", [](const std::string& line) { ADD_FAILURE() << line; }};
  std::unique_ptr<Journal> journal;
  std::unique_ptr<VoteDesk> desk;
  std::unique_ptr<VoteServer> server;

 private:
  static TallyOptions tally_options(const HouseOptions& options) {
    return {options.method, options.workers, 0, options.size, 2, 10};
  }
  State snapshot(std::vector<std::string> owners) const {
    RunState state;
    state.run_id = run_id;
    state.progress.rounds = tally.rounds();
    state.owners = std::move(owners);
    state.parameters = parameters;
    state.tally = tally.snapshot();
    return to_state(std::move(state));
  }
  void take_ballots() {
    for (CastBallot& ballot : desk->take_ballots()) taken_.push_back(std::move(ballot));
  }

  std::vector<CastBallot> taken_;  // in the open round
};

/// A worker: a session, and the model it has.
class DeskWorker {
 public:
  DeskWorker(DeskHouse& house, const std::string& name) : DeskWorker(house, name, std::nullopt) {}
  /// By TLS.
  DeskWorker(DeskHouse& house, const std::string& name, std::optional<KeyPair> keys)
      : house_(house),
        name_(name),
        client_({"127.0.0.1:" + std::to_string(house.server->port()), keys,
                 keys ? certificates().authority("ours") : "", 0}) {}

  /// Says hello, as one that has no model, or has one; the welcome is not waited for.
  void call(std::optional<std::uint64_t> round = std::nullopt) {
    v1::FromWorker message = hello(name_);
    if (round) {
      message.mutable_hello()->set_has_model(true);
      message.mutable_hello()->set_run_id(house_.run_id);
      message.mutable_hello()->set_round(*round);
      const auto last = *round > 0 ? house_.journal->verdict(*round - 1) : std::nullopt;
      if (last) message.mutable_hello()->set_last_verdict(XXH3_64bits(last->data(), last->size()));
    }
    call(message);
  }
  void call(const v1::FromWorker& message) {
    ASSERT_TRUE(client_.begin(kConnectSeconds)) << client_.end().text;
    ASSERT_TRUE(client_.send(message));
  }
  /// Waits for the welcome.
  const v1::Welcome& welcomed() {
    if (!receive() || !last_.has_welcome()) throw std::runtime_error("no welcome: " + client_.end().text);
    welcome_ = last_.welcome();
    round_ = welcome_.round();
    return welcome_;
  }
  const v1::Welcome& join(std::optional<std::uint64_t> round = std::nullopt) {
    call(round);
    return welcomed();
  }

  bool send(const v1::FromWorker& message) { return client_.send(message); }
  /// An honest vote in the open round.
  void vote() { vote(house_.random_signs()); }
  void vote(const SignVector& signs) {
    house_.votes[welcome_.worker()] = signs;
    ASSERT_TRUE(send(house_.good_ballot(welcome_.worker(), round_, signs)));
  }

  bool receive() { return client_.receive(last_); }
  const v1::ToWorker& last() const { return last_; }
  /// The parameters of the welcome's snapshot, all its chunks. Returns how many.
  int fetch_model() {
    model.assign(house_.parameters.size(), -1);
    const auto bytes = std::as_writable_bytes(std::span(model));
    int chunks = 0;
    for (std::size_t have = 0; have < bytes.size(); ++chunks) {
      if (!receive() || !last_.has_chunk() || last_.chunk().data().size() > bytes.size() - have)
        throw std::runtime_error("no chunk");
      std::ranges::copy(std::as_bytes(std::span(last_.chunk().data())),
                        bytes.begin() + static_cast<std::ptrdiff_t>(have));
      have += last_.chunk().data().size();
    }
    return chunks;
  }
  /// The next verdict: of its round, whole; steps by it. Returns the round that is open then.
  std::uint64_t take_verdict() {
    if (!receive() || !last_.has_verdict()) throw std::runtime_error("no verdict: " + client_.end().text);
    SignVector verdict;
    std::string problem;
    EXPECT_TRUE(decode(std::as_bytes(std::span(last_.verdict().message())), house_.verdict_header(round_),
                       verdict, problem))
        << problem;
    if (!model.empty()) step(model, verdict, Step{last_.verdict().step(), last_.verdict().decay()});
    ++round_;
    return last_.verdict().open_round();
  }
  SessionEnd end() { return client_.end(); }
  /// The session has been ended by the server.
  SessionEnd ended() {
    while (receive()) continue;
    return client_.end();
  }
  std::uint64_t round() const { return round_; }

  std::vector<float> model;

 private:
  DeskHouse& house_;
  const std::string name_;
  VoteClient client_;
  v1::ToWorker last_;
  v1::Welcome welcome_;
  std::uint64_t round_ = 0;
};

}  // namespace signvote
