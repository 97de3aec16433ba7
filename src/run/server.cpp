#include "run/server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "base/files.h"
#include "journal/journal.h"
#include "report/metrics.h"
#include "run/allow_list.h"
#include "run/desk.h"
#include "run/record.h"
#include "run/replay.h"
#include "signvote/ballot_box.h"
#include "signvote/error.h"
#include "signvote/tally.h"
#include "signvote/wire.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How many bytes of metrics.jsonl are rows up to `rounds`, and whether the last is of that round.
std::pair<std::size_t, bool> rows_until(const fs::path& file, std::uint64_t rounds) {
  if (!fs::exists(file)) return {0, false};
  std::istringstream lines(read_text_file(file));
  std::size_t bytes = 0;
  bool last = false;
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    const json row = json::parse(line, nullptr, false);
    if (!row.is_object() || row.value("round", UINT64_MAX) > rounds) break;
    bytes += line.size() + 1;
    last = row.value("round", UINT64_MAX) == rounds;
  }
  return {bytes, last};
}

class Server {
 public:
  Server(const ServerOptions& options, const Dataset& dataset, const TrainHooks& hooks)
      : options_(options),
        config_(options.config),
        hooks_(hooks),
        allowed_(options.allow, *config_.workers),
        folder_(config_.out),
        lock_(folder_),
        pool_(config_.thread_count(), use_one_torch_thread),
        replicas_(config_.model, dataset.train, dataset.classes, config_.seed, pool_.size()),
        tally_({config_.tally_method(), *config_.workers, 0, replicas_.size(), config_.initial_rounds,
                config_.clip},
               pool_.parallel_for()),
        box_(tally_, config_.run_id()),
        owners_(*config_.workers) {
    declare_metrics();
    if (!Journal::exists(folder_ / "journal")) Journal::create(folder_ / "journal", snapshot());
    journal_.emplace(folder_ / "journal", Journal::Mode::append, log_);
    recover();
    write_file_atomically(folder_ / "config.toml", write_config(config_));
    const auto [keep, tested] = rows_until(folder_ / "metrics.jsonl", progress_.rounds);
    record_.emplace(config_, dataset, replicas_, pool_, keep);
    if (progress_.rounds > 0 && due_for_test() && !tested) record_->test(progress(), last_loss_);
    listen();
    if (hooks_.started) hooks_.started();
  }

  ~Server() {
    if (desk_) desk_->wake_with({});  // a session may still join while the others are being ended
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  TrainResult go() {
    while (progress_.rounds < config_.rounds) {
      if (!wait_for_ballots()) return leave();
      const double loss = round();
      const bool evaluated = due_for_test();
      if (evaluated) timed("evaluate", [&] { record_->test(progress(), loss); });
      if (evaluated) metrics_.set("signvote_test_accuracy", *record_->accuracy());
      if (progress_.rounds == config_.rounds)
        save();
      else if (progress_.rounds % config_.save_every == 0)
        try_to_save();
      if (hooks_.progress)
        hooks_.progress({{}, progress_.rounds, config_.rounds, record_->accuracy(), loss, evaluated});
    }
    record_->write_model();
    record_->write_summary(progress(), tally_, tally_.total_half_errors(), nlohmann::ordered_json::object());
    say_goodbye();
    return {true, progress_.rounds};
  }

 private:
  bool stop_requested() const { return hooks_.stop != nullptr && *hooks_.stop; }
  std::uint32_t quorum() const { return options_.quorum != 0 ? options_.quorum : *config_.workers; }

  // --- A round -----------------------------------------------------------------------------------

  /// False: asked to stop.
  bool wait_for_ballots() {
    const Clock::time_point opened = Clock::now();
    double patience_of_people = 60;  // seconds until it says whom it waits for
    while (true) {
      beat_ = Clock::now();
      if (stop_requested()) return false;
      if (server_->deaf()) listen_again();
      bool news = desk_->reload_allow_list();
      if (news) compare_allow_list();
      for (const MemberRecord& member : desk_->newcomers()) {
        journal_->append(member);
        set_owner(member, tally_, owners_);
        desk_->confirm(member);
        news = true;
      }
      if (news) server_->wake();
      const double waited = seconds_since(opened);
      if (waited > patience_of_people) {
        patience_of_people *= 4;
        log_(fmt::format("round {} waits since {:.0f} s for {}", progress_.rounds + 1, waited,
                         fmt::join(desk_->missing(), ", ")));
      }
      const bool overdue = waited >= options_.deadline_seconds;
      // Looked at again five times a second, for the stop and the allow-list; a ballot is seen at once.
      const double patience = overdue ? 0.2 : std::min(0.2, options_.deadline_seconds - waited);
      if (desk_->wait_for_votes(overdue ? quorum() : *config_.workers, patience)) {
        metrics_.add("signvote_seconds_total", seconds_since(opened), "phase=\"wait\"");
        training_seconds_ += seconds_since(opened);
        return true;
      }
    }
  }

  /// The server's half of the paper's round: tally, journal, verdict, step. Returns the mean loss.
  double round() {
    const Clock::time_point start = Clock::now();
    JournalRecord entry;  // as the journal takes it, without another copy of all ballots
    timed("decide", [&] { entry = desk_->close_round(); });
    const RoundRecord& record = std::get<RoundRecord>(entry);
    const auto voted =
        std::ranges::count_if(record.ballots, [](const CastBallot& b) { return !b.message.empty(); });
    if (voted == 0) throw nobody_voted(config_, record.round);
    timed("journal", [&] { journal_->append(entry); });
    timed("publish", [&] {
      desk_->publish(record.verdict);
      server_->wake();
    });
    timed("step", [&] { take(record); });
    training_seconds_ += seconds_since(start);
    metrics_.add("signvote_rounds_total");
    metrics_.set("signvote_round", static_cast<double>(progress_.rounds));
    for (std::uint32_t m = 0; m < owners_.size() && config_.tally_method() == Method::it; ++m)
      if (!owners_[m].empty() && tally_.rounds_of(m) > 0)
        metrics_.set("signvote_error_rate",
                     static_cast<double>(tally_.total_half_errors(m)) / 2.0 / tally_.rounds_of(m) /
                         static_cast<double>(tally_.size()),
                     fmt::format("worker=\"{}\"", escape_label(owners_[m])));
    return last_loss_;
  }

  /// Steps by a decided round and counts it; for new rounds and replayed ones alike.
  void take(const RoundRecord& record) {
    std::string problem;
    const MessageHeader expected{MessageKind::verdict, config_.run_id(), record.round, 0, replicas_.size()};
    if (!decode(record.verdict, expected, verdict_, problem))
      throw DataError("the journal's verdict is a " + problem);
    step(replicas_.parameters(), verdict_, static_cast<float>(config_.step));
    progress_.rounds = record.round + 1;
    progress_.traffic.verdicts += 1;
    progress_.traffic.verdict_bytes += record.verdict.size();
    progress_.absences += *config_.workers;
    std::vector<double> losses;
    std::vector<std::uint32_t> batches;
    for (const CastBallot& ballot : record.ballots) {
      if (ballot.message.empty()) continue;
      losses.push_back(ballot.loss);
      batches.push_back(ballot.batch);
      progress_.absences -= 1;
      progress_.samples += ballot.batch;
      progress_.traffic.ballots += 1;
      progress_.traffic.ballot_bytes += ballot.message.size();
    }
    last_loss_ = mean_loss(losses, batches);
  }

  void save() {
    timed("snapshot", [&] {
      record_->sync_metrics();
      journal_->take_snapshot(snapshot(), options_.keep, static_cast<float>(config_.step));
    });
    last_snapshot_ = progress_.rounds;
  }

  /// Between rounds a snapshot is for convenience: the journal has all that is in it.
  void try_to_save() {
    try {
      save();
    } catch (const DataError& error) {
      log_(fmt::format("goes on without the snapshot of round {}: {}", progress_.rounds, error.what()));
    }
  }

  TrainResult leave() {
    if (last_snapshot_ != progress_.rounds) save();
    record_->write_model();
    return {false, progress_.rounds};
  }

  bool due_for_test() const {
    return progress_.rounds % config_.eval_every == 0 || progress_.rounds == config_.rounds;
  }

  // --- Where it stands ---------------------------------------------------------------------------

  RunProgress progress() const {
    RunProgress result = progress_;
    result.seconds += seconds_since(start_);
    result.training_seconds += training_seconds_;
    return result;
  }

  JournalSnapshot snapshot() {
    JournalSnapshot result;
    result.round = progress_.rounds;
    result.notes = write_notes({config_.run_id(), progress(), owners_});
    result.parameters.assign(replicas_.parameters().begin(), replicas_.parameters().end());
    result.tally = tally_.snapshot();
    return result;
  }

  /// Back to where the journal ends: its snapshot, then every round after it.
  void recover() {
    const JournalSnapshot saved = journal_->snapshot();
    const SnapshotNotes notes = read_notes(saved);
    if (notes.run_id != config_.run_id())
      throw ConfigError(
          fmt::format("'{}' is the state of a run with other settings; give those, or choose another --state",
                      folder_.string()));
    if (saved.parameters.size() != replicas_.size() || notes.owners.size() != owners_.size())
      throw DataError(fmt::format("'{}' has {} parameters where the model has {}", folder_.string(),
                                  saved.parameters.size(), replicas_.size()));
    std::ranges::copy(saved.parameters, replicas_.parameters().begin());
    tally_.restore(saved.tally);
    progress_ = notes.progress;
    owners_ = notes.owners;
    last_snapshot_ = saved.round;
    journal_->replay([this](const JournalRecord& record) {
      if (const auto* member = std::get_if<MemberRecord>(&record)) return set_owner(*member, tally_, owners_);
      decide_again(std::get<RoundRecord>(record), box_, folder_ / "journal");
      take(std::get<RoundRecord>(record));
    });
    if (progress_.rounds > config_.rounds)
      throw ConfigError(fmt::format("'{}' has finished {} rounds already, more than --rounds {}",
                                    folder_.string(), progress_.rounds, config_.rounds));
    if (progress_.rounds > 0)
      log_(fmt::format("goes on after round {} ({} of them since the last snapshot)", progress_.rounds,
                       progress_.rounds - saved.round));
  }

  // --- Around it ---------------------------------------------------------------------------------

  void declare_metrics() {
    using Kind = Metrics::Kind;
    metrics_.declare("signvote_round", Kind::gauge, "Rounds decided since the run began");
    metrics_.declare("signvote_rounds_total", Kind::counter, "Rounds decided by this process");
    metrics_.declare("signvote_workers_connected", Kind::gauge, "Workers with a session");
    metrics_.declare("signvote_ballots_total", Kind::counter, "Ballots by what became of them");
    metrics_.declare("signvote_refused_total", Kind::counter, "Sessions and connections refused, by reason");
    metrics_.declare("signvote_ballot_bytes_total", Kind::counter, "Bytes of ballots counted");
    metrics_.declare("signvote_verdict_bytes_total", Kind::counter, "Bytes of verdicts handed to sessions");
    metrics_.declare("signvote_snapshot_bytes_total", Kind::counter, "Bytes of snapshots handed to sessions");
    metrics_.declare("signvote_seconds_total", Kind::counter, "Where the time goes, by phase");
    metrics_.declare("signvote_test_accuracy", Kind::gauge, "Of the last test");
    metrics_.declare("signvote_error_rate", Kind::gauge, "Mean estimated error rate of a worker's signs");
  }

  void listen() {
    desk_.emplace(config_, replicas_.size(), box_, *journal_, allowed_, owners_, metrics_, log_);
    listen_ = options_.listen;
    listen_.largest_message = most_message_bytes(replicas_.size());
    listen_.workers = *config_.workers;
    server_.emplace(listen_, *desk_);
    desk_->wake_with([this] { server_->wake(); });
    json ports = {{"port", server_->port()}, {"pid", ::getpid()}};
    if (options_.metrics_port) {
      endpoint_.emplace(*options_.metrics_port, metrics_, [this] { return ailment(); });
      ports["metrics_port"] = endpoint_->port();
    }
    write_file_atomically(folder_ / "server.json", ports.dump(2) + "\n");
    log_(fmt::format("listens on port {}{}; waits for {} of {} workers a round", server_->port(),
                     endpoint_ ? fmt::format(", metrics on 127.0.0.1:{}", endpoint_->port()) : "", quorum(),
                     *config_.workers));
    compare_allow_list();
  }

  /// On the same port. The workers' sessions are cut, and they come back.
  void listen_again() {
    Address address = listen_address(listen_);
    address.port = server_->port();
    listen_.listen = address.text();
    desk_->wake_with({});
    server_.reset();
    server_.emplace(listen_, *desk_);
    desk_->wake_with([this] { server_->wake(); });
    log_("listens anew; if this happens often, raise the limit of open files (ulimit -n)");
  }

  void compare_allow_list() {
    if (desk_->allowed() < quorum())
      log_(fmt::format("the allow-list names {} workers, but a round needs {}: add some", desk_->allowed(),
                       quorum()));
  }

  /// For /healthz: nothing if all is well. Waiting for workers is.
  std::string ailment() const {
    constexpr double kLong = 600;
    const double seconds = seconds_since(beat_);
    return seconds < kLong ? "" : fmt::format("the server has been busy with one step for {:.0f} s", seconds);
  }

  /// Workers that are away have ten seconds to come and hear of the end; those with a session, who may be
  /// computing, or on a slow link, ten minutes.
  void say_goodbye() {
    desk_->finish();
    server_->wake();
    desk_->wait_until_all_know(10);
    const Clock::time_point start = Clock::now();
    bool said = false;
    while (!server_->wait_for_goodbyes(1) && !stop_requested() && seconds_since(start) < 600)
      if (!std::exchange(said, true))
        log_(fmt::format("the run is finished; waits for {} workers to hear of it", server_->sessions()));
  }

  void timed(const char* phase, const std::function<void()>& work) {
    const Clock::time_point start = Clock::now();
    work();
    metrics_.add("signvote_seconds_total", seconds_since(start), fmt::format("phase=\"{}\"", phase));
  }

  const ServerOptions& options_;
  const TrainConfig& config_;
  const TrainHooks& hooks_;
  const std::function<void(const std::string&)> log_ = [this](const std::string& line) {
    const std::lock_guard lock(log_mutex_);
    if (hooks_.warn) hooks_.warn(line);
  };
  std::mutex log_mutex_;
  AllowList allowed_;  // looked at before anything is made
  fs::path folder_;
  FolderLock lock_;
  ThreadPool pool_;
  Replicas replicas_;
  Tally tally_;
  BallotBox box_;
  SignVector verdict_;
  std::vector<std::string> owners_;                     // of the tally's slots; empty: nobody yet
  std::atomic<Clock::time_point> beat_ = Clock::now();  // when a round was last waited for
  Metrics metrics_;
  std::optional<Journal> journal_;
  std::optional<Record> record_;
  std::optional<VoteDesk> desk_;
  VoteServerOptions listen_;
  std::optional<VoteServer> server_;
  std::optional<MetricsEndpoint> endpoint_;

  RunProgress progress_;  // its times are those of earlier processes
  std::uint64_t last_snapshot_ = 0;
  double last_loss_ = 0;
  Clock::time_point start_ = Clock::now();
  double training_seconds_ = 0;
};

}  // namespace

TrainResult serve(const ServerOptions& options, const Dataset& dataset, const TrainHooks& hooks) {
  use_one_torch_thread();
  return Server(options, dataset, hooks).go();
}

}  // namespace signvote
