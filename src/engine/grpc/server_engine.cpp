#include "engine/grpc/server_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/text.h"
#include "engine/grpc/allow_list.h"
#include "engine/grpc/audit_log.h"
#include "engine/grpc/vote_desk.h"
#include "engine/replay.h"
#include "journal/journal.h"
#include "signvote/ballot_box.h"
#include "signvote/error.h"
#include "signvote/wire.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

constexpr double kLook = 0.2;            // seconds between two checks for a stop or a changed allow-list
constexpr double kCertificatesLook = 1;  // seconds between two checks for changed certificates
constexpr double kFirstReminder = 60;
constexpr double kForThoseAway = 10;  // seconds in which workers may come to learn that the run is finished
constexpr double kForTheSlow = 600;   // the same for those with a session
constexpr double kLongStep = 600;     // seconds without such a check, after which the server is not healthy

class ServerEngine : public Engine {
 public:
  ServerEngine(ServerEngineOptions options, Metrics& metrics, ParallelFor parallel)
      : options_(std::move(options)),
        metrics_(metrics),
        allow_list_(options_.allow, options_.tally.workers),
        tally_(options_.tally, std::move(parallel)),
        box_(tally_, options_.run_id) {}

  ~ServerEngine() override {
    if (desk_) desk_->wake_with({});  // because a session may still join while the others are being ended
  }
  ServerEngine(const ServerEngine&) = delete;
  ServerEngine& operator=(const ServerEngine&) = delete;

  std::span<const std::uint32_t> hosted() const override { return {}; }
  bool leads() const override { return true; }

  void open(const RunState& fresh, const std::function<void(const RunState&)>& saved,
            const std::function<void(const Outcome&)>& decided) override {
    const fs::path folder = options_.folder / "journal";
    if (!Journal::exists(folder)) {
      RunState start = fresh;
      start.tally = tally_.snapshot();
      start.owners.assign(options_.tally.workers, "");
      Journal::create(folder, to_state(std::move(start)));
    }
    journal_.emplace(folder, Journal::Mode::append, options_.log);
    RunState state = from_state(journal_->snapshot(), folder.string());
    saved(state);
    tally_.restore(state.tally);
    Replay replay(tally_, box_, std::move(state.owners), folder);
    journal_->replay([&](const JournalEvent& event) {
      const RoundRecord* record = replay.take(event);
      if (record == nullptr) return;
      Outcome outcome{&box_.verdict(), 0, std::vector<BatchLoss>(options_.tally.workers), false};
      for (const CastBallot& ballot : record->ballots) {
        if (ballot.message.empty()) continue;
        outcome.losses[ballot.worker] = {ballot.batch, ballot.loss};
        count_ballot(ballot.message.size());
        ++outcome.present;
      }
      count_verdict(record->verdict.size());
      decided(outcome);
    });
    owners_at_start_ = replay.owners();
  }

  /// From here on the server listens.
  void start() override {
    const VoteDeskOptions about{options_.run_id,       options_.settings,    tally_.size(),
                                options_.rounds,       options_.step_of,     options_.batches,
                                options_.most_samples, options_.takes_tests, options_.attendance};
    audit_.emplace(options_.folder / "audit.log", options_.log);
    desk_.emplace(about, box_, *journal_, allow_list_, owners_at_start_, metrics_, *audit_, options_.log);
    options_.listen.largest_message = most_message_bytes(tally_.size());
    options_.listen.workers = options_.tally.workers;
    metrics_.set("signvote_round", static_cast<double>(tally_.rounds()));
    use_certificates();
    listen();
    nlohmann::json ports = {{"port", server_->port()}, {"pid", ::getpid()}};
    if (options_.metrics_port) {
      endpoint_.emplace(*options_.metrics_port, metrics_, [this] { return health_problem(); });
      ports["metrics_port"] = endpoint_->port();
    }
    write_file_atomically(options_.folder / kServerFile, ports.dump(2) + "\n");
    options_.log(fmt::format("listens on port {}{}; waits for {} of {} a round", server_->port(),
                             endpoint_ ? fmt::format(", metrics on 127.0.0.1:{}", endpoint_->port()) : "",
                             quorum(), counted(options_.tally.workers, "worker")));
    compare_allow_list();
  }

  void send_digest(std::uint64_t digest) override { digest_ = digest; }

  void send_ballot(std::uint32_t, const SignVector*, const BatchLoss&) override {
    assert(false && "a server hosts no worker");
  }

  Outcome receive_verdict(bool stop) override {
    Outcome outcome;
    outcome.stop = stop || !wait_for_ballots();
    if (outcome.stop) return outcome;
    VoteDesk::ClosedRound closed;
    timed("journal", [&] {
      desk_->close_round();
      write_ballots();
      closed = desk_->closed_round();
    });
    if (const auto digest = std::exchange(digest_, std::nullopt)) desk_->compare_models(*digest);
    outcome.present = closed.voted;
    outcome.losses = std::move(closed.losses);
    outcome.tests = std::move(closed.tests);
    if (outcome.present == 0) return outcome;
    const std::uint64_t round = box_.round();
    std::span<const std::byte> verdict;
    timed("decide", [&] { verdict = box_.close(); });
    timed("journal", [&] { journal_->append(round, closed.answered, verdict); });
    timed("publish", [&] {
      desk_->publish(verdict);
      wake();
    });
    count_verdict(verdict.size());
    metrics_.add("signvote_rounds_total");
    metrics_.set("signvote_round", static_cast<double>(tally_.rounds()));
    show_error_rates();
    decided_ = true;
    outcome.verdict = &box_.verdict();
    return outcome;
  }

  void save(RunState state) override {
    state.owners = desk_->owners();
    state.tally = tally_.snapshot();
    const std::uint64_t round = state.progress.rounds;
    try {
      journal_->take_snapshot(to_state(std::move(state)), options_.keep, options_.step_of);
    } catch (const DataError& error) {
      options_.log(fmt::format("goes on without the snapshot of round {}: {}", round, error.what()));
    }
  }

  /// Workers that are away have ten seconds to come and learn of the end. Those with a session have ten
  /// minutes, because they may be computing or on a slow link. Once all know,
  /// or a server that had only this to tell was here for ten seconds, server.json goes: nobody is left to
  /// tell. A stop that is asked for ends the wait.
  void finish() override {
    desk_->finish();
    wake();
    const Clock::time_point start = Clock::now();
    bool all_know = false;
    bool nobody_left = false;
    bool said = false;
    do {
      if (look_after_sessions()) wake();
      all_know = desk_->wait_until_all_know(kLook);
      if (!all_know && seconds_since(start) < kForThoseAway) continue;
      nobody_left = server_ ? server_->wait_for_goodbyes(1) : all_know;
      if (!nobody_left && server_ && !std::exchange(said, true))
        options_.log(fmt::format("the run is finished; waits for {} to hear of it",
                                 counted(server_->sessions(), "worker")));
    } while (!nobody_left && !options_.stop_requested() && seconds_since(start) < kForTheSlow);
    if ((all_know || !decided_) && nobody_left) fs::remove(options_.folder / kServerFile);
  }

  const Tally& tally() const override { return tally_; }
  std::vector<std::int64_t> total_half_errors() const override { return tally_.total_half_errors(); }
  Traffic traffic() const override { return traffic_; }

 private:
  std::uint32_t quorum() const { return options_.quorum != 0 ? options_.quorum : options_.tally.workers; }

  /// To be called now and then. Returns true if the allow-list has changed: the sessions must then be woken.
  bool look_after_sessions() {
    last_look_ = Clock::now();
    if (!server_) listen_again("listens again");
    if (server_ && server_->stopped_accepting())
      listen_again("listens anew; if this happens often, raise the limit of open files (ulimit -n)");
    reload_certificates();
    desk_->report_refusals();
    const bool news = desk_->reload_allow_list();
    if (news) compare_allow_list();
    // A session that ends leaves its connection, which could go on without a session. Only a new server has
    // none, and those who are on the list come back.
    if (news && options_.listen.keys && desk_->shut_somebody_out())
      listen_again("listens anew, because the allow-list shuts somebody out");
    return news;
  }

  /// Returns false if a stop was asked for.
  bool wait_for_ballots() {
    const Clock::time_point opened = Clock::now();
    double reminder = kFirstReminder;  // seconds until the log says whom the round waits for
    while (true) {
      if (options_.stop_requested()) return false;
      bool news = look_after_sessions();
      for (const MemberRecord& member : desk_->newcomers()) {
        journal_->append(member);
        if (desk_->confirm(member)) tally_.forget(member.worker);
        news = true;
      }
      if (news) wake();
      write_ballots();
      const double waited = seconds_since(opened);
      if (waited > reminder) {
        reminder *= 4;
        options_.log(fmt::format("round {} waits since {:.0f} s for {}", box_.round() + 1, waited,
                                 fmt::join(desk_->missing(), ", ")));
      }
      const bool overdue = waited >= options_.deadline_seconds;
      const double patience = overdue ? kLook : std::min(kLook, options_.deadline_seconds - waited);
      if (desk_->wait_for_votes(overdue ? quorum() : options_.tally.workers, patience)) {
        add_phase_seconds(metrics_, "wait", seconds_since(opened));
        return true;
      }
    }
  }

  void write_ballots() {
    for (const CastBallot& ballot : desk_->take_ballots()) {
      journal_->append(box_.round(), ballot);
      if (!ballot.message.empty()) count_ballot(ballot.message.size());
    }
  }

  void count_ballot(std::size_t bytes) {
    ++traffic_.ballots;
    traffic_.ballot_bytes += bytes;
  }
  void count_verdict(std::size_t bytes) {
    ++traffic_.verdicts;
    traffic_.verdict_bytes += bytes;
  }

  void listen() {
    server_.emplace(options_.listen, *desk_);
    desk_->wake_with([this] { server_->wake(); });
    Address address = parse_address(options_.listen.listen, "--listen");
    address.port = server_->port();
    options_.listen.listen = address.text();  // the next one gets the same port
  }

  /// Replaces the server by a new one on the same port, and then logs `line`. The workers' sessions are cut,
  /// and they come back. If it cannot listen now, because no file descriptor is left or somebody has taken
  /// the port, there is no server until look_after_sessions has tried again.
  void listen_again(const char* line) {
    desk_->wake_with({});
    server_.reset();
    try {
      listen();
      cannot_listen_.clear();
      options_.log(line);
    } catch (const std::exception& error) {
      if (std::exchange(cannot_listen_, error.what()) != error.what())
        options_.log(fmt::format("{}; tries again", error.what()));
    }
  }

  void wake() {
    if (server_) server_->wake();
  }

  void use_certificates() {
    if (!options_.tls) return;
    options_.listen.keys = options_.tls->keys();
    options_.listen.client_authority = options_.tls->authority();
  }

  /// New certificates are used by listening anew: so everybody whom they do not let in is gone as well.
  void reload_certificates() {
    if (!options_.tls || seconds_since(last_certificates_) < kCertificatesLook) return;
    last_certificates_ = Clock::now();
    try {
      if (!options_.tls->reload()) return;
    } catch (const DataError& error) {
      options_.log(fmt::format("the changed certificates are not used: {}", error.what()));
      return;
    }
    use_certificates();
    listen_again("the certificates were changed; listens anew");
  }

  void compare_allow_list() {
    if (desk_->allowed() < quorum())
      options_.log(fmt::format("the allow-list names {}, but a round needs {}: add some",
                               counted(desk_->allowed(), "worker"), quorum()));
  }

  void show_error_rates() {
    const std::vector<std::int64_t> totals = tally_.total_half_errors();
    const std::vector<std::string> owners = desk_->owners();
    for (std::uint32_t m = 0; m < totals.size(); ++m)
      if (!owners[m].empty() && tally_.rounds_of(m) > 0)
        metrics_.set(
            "signvote_error_rate",
            static_cast<double>(totals[m]) / 2.0 / tally_.rounds_of(m) / static_cast<double>(tally_.size()),
            fmt::format("worker=\"{}\"", escape_label(owners[m])));
  }

  /// What /healthz reports. It fails once a single step has taken ten minutes; waiting for workers is
  /// healthy.
  std::string health_problem() const {
    const double seconds = seconds_since(last_look_);
    return seconds < kLongStep ? ""
                               : fmt::format("the server has been busy with one step for {:.0f} s", seconds);
  }

  void timed(const char* phase, const std::function<void()>& work) {
    const Clock::time_point start = Clock::now();
    work();
    add_phase_seconds(metrics_, phase, seconds_since(start));
  }

  ServerEngineOptions options_;
  Metrics& metrics_;
  AllowList allow_list_;
  Tally tally_;
  BallotBox box_;
  Traffic traffic_;
  std::vector<std::string> owners_at_start_;
  bool decided_ = false;                 // a round, in this process
  std::optional<std::uint64_t> digest_;  // of the server's model before the open round, if it is compared
  std::atomic<Clock::time_point> last_look_ = Clock::now();  // of the last check in wait_for_ballots
  Clock::time_point last_certificates_ = Clock::now();
  std::optional<Journal> journal_;
  std::optional<AuditLog> audit_;
  std::optional<VoteDesk> desk_;
  std::optional<VoteServer> server_;  // none while it cannot listen
  std::string cannot_listen_;         // why, so that it is logged once
  std::optional<MetricsEndpoint> endpoint_;
};

}  // namespace

void declare_server_metrics(Metrics& metrics) {
  using Kind = Metrics::Kind;
  metrics.declare("signvote_round", Kind::gauge, "Rounds decided since the run began");
  metrics.declare("signvote_rounds_total", Kind::counter, "Rounds decided by this process");
  metrics.declare("signvote_workers_connected", Kind::gauge, "Workers with a session");
  metrics.declare("signvote_ballots_total", Kind::counter, "Ballots by what became of them");
  metrics.declare("signvote_refused_total", Kind::counter, "Sessions and connections refused, by reason");
  metrics.declare("signvote_wrong_models_total", Kind::counter, "Models of workers unlike the server's");
  metrics.declare("signvote_ballot_bytes_total", Kind::counter, "Bytes of ballots counted");
  metrics.declare("signvote_verdict_bytes_total", Kind::counter, "Bytes of verdicts handed to sessions");
  metrics.declare("signvote_snapshot_bytes_total", Kind::counter, "Bytes of snapshots handed to sessions");
  metrics.declare("signvote_lost_state_total", Kind::counter,
                  "Workers that came with a later round than the server has");
  metrics.declare("signvote_seconds_total", Kind::counter, "Where the time goes, by phase");
  metrics.declare("signvote_test_accuracy", Kind::gauge, "Of the last test");
  metrics.declare("signvote_error_rate", Kind::gauge, "Mean estimated error rate of a worker's signs");
  metrics.set("signvote_round", 0);
  metrics.set("signvote_workers_connected", 0);
}

void add_phase_seconds(Metrics& metrics, const std::string& phase, double seconds) {
  metrics.add("signvote_seconds_total", seconds, fmt::format("phase=\"{}\"", phase));
}

std::unique_ptr<Engine> make_server_engine(ServerEngineOptions options, Metrics& metrics,
                                           ParallelFor parallel_for) {
  return std::make_unique<ServerEngine>(std::move(options), metrics, std::move(parallel_for));
}

}  // namespace signvote
