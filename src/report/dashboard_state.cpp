#include "report/dashboard_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace signvote {
namespace {

using nlohmann::json;

constexpr std::size_t kTests = 500;      // rows of the tests' history
constexpr double kRateWindow = 30;       // seconds over which rounds are counted
constexpr double kHeatMapSeconds = 3;    // between two heat maps for a page
constexpr double kLeastPatience = 3;     // seconds until a worker is late in a round that waits for it
constexpr double kPatience = 3;          // the same in usual rounds
constexpr std::size_t kLossAndRate = 2;  // columns
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

/// Many workers have fewer rows, so that a page that opens need not fetch more than some hundred kilobytes.
std::size_t rows_for(std::uint32_t workers) {
  return std::clamp<std::size_t>(40'000 / (workers + kLossAndRate), 120, 480);
}

double seconds_between(DashboardState::Time from, DashboardState::Time to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Four digits are more than a page can show. NaN and infinity become null.
json short_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return value == 0 ? 0.0 : std::stod(fmt::format("{:.4g}", value));
}
json short_number(const std::optional<double>& value) { return short_number(value.value_or(kNoNumber)); }

std::string event(const char* name, const json& data) {
  // What is no UTF-8, such as a folder's name, may not end the run.
  return fmt::format("event: {}\ndata: {}\n\n", name,
                     data.dump(-1, ' ', false, json::error_handler_t::replace));
}

bool is_better(const DashboardTest& test, const DashboardTest& best) {
  if (test.accuracy && best.accuracy) return *test.accuracy > *best.accuracy;
  return test.loss.value_or(INFINITY) < best.loss.value_or(INFINITY);
}

}  // namespace

std::string name_of(Presence presence) {
  switch (presence) {
    case Presence::awaited:
      return "awaited";
    case Presence::present:
      return "present";
    case Presence::late:
      return "late";
    case Presence::gone:
      return "gone";
  }
  return "";
}

Presence presence_of(const Sighting& sighting) {
  if (!sighting.connected) return sighting.has_come ? Presence::gone : Presence::awaited;
  if (sighting.answered) return Presence::present;
  const bool kept_waiting =
      sighting.others_answered &&
      sighting.open_seconds > std::max(kLeastPatience, kPatience * sighting.usual_seconds);
  return kept_waiting || !sighting.voted_last_round ? Presence::late : Presence::present;
}

DashboardState::DashboardState(DashboardRun run, const Attendance& attendance)
    : run_(std::move(run)),
      attendance_(attendance),
      rows_(kLossAndRate + (run_.learns ? run_.workers : 0), rows_for(run_.workers), History::Merge::mean),
      tests_(2, kTests, History::Merge::later),
      voted_round_(run_.workers),
      voted_at_(run_.workers) {
  round_.votes.resize(run_.workers);
}

void DashboardState::add_past(const DashboardTest& past, double train_loss, double rounds_per_second) {
  add_test(past);
  const std::lock_guard lock(mutex_);
  std::vector<double> numbers(kLossAndRate + (run_.learns ? run_.workers : 0), kNoNumber);
  numbers[0] = train_loss;
  numbers[1] = rounds_per_second;
  rows_.add(past.round, numbers);
  row_round_ = past.round;
  sent_.thinned =
      std::numeric_limits<std::uint64_t>::max();  // pages that came before this get the whole again
}

void DashboardState::add_round(DashboardRound round, Time now) {
  const std::lock_guard lock(mutex_);
  const bool is_first = phase_ == "starting";
  if (is_first) {
    phase_ = "running";
    last_looks_.emplace_back(now, round.done);
  } else {
    for (std::uint32_t m = 0; m < run_.workers; ++m)
      if (round.votes[m] != round_.votes[m]) {
        voted_round_[m] = round.done;
        voted_at_[m] = now;
      }
  }
  if (!is_first) {
    losses_ += round.loss;  // NaN, if the model has diverged: then the plot has a gap
    ++lost_rounds_;
  }
  round_ = std::move(round);
}

void DashboardState::add_test(const DashboardTest& test) {
  const std::lock_guard lock(mutex_);
  if (!test.accuracy && !test.loss) return;
  tests_.add(test.round, {test.accuracy.value_or(kNoNumber), test.loss.value_or(kNoNumber)});
  sent_.tests = std::min(sent_.tests, tests_.size() - 1);
  tested_ = test;
  if (!best_ || is_better(test, *best_)) best_ = test;
}

void DashboardState::look(std::vector<DashboardWorker> workers, bool weighted, HeatMap heat_map) {
  const std::lock_guard lock(mutex_);
  seen_ = std::move(workers);
  weighted_ = weighted;
  heat_map_ = std::move(heat_map);
  ++heat_maps_;
}

void DashboardState::end(const std::string& phase) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
}

double DashboardState::rounds_per_second() const {
  if (last_looks_.size() < 2) return 0;
  const auto& [since, before] = last_looks_.front();
  const auto& [until, after] = last_looks_.back();
  const double seconds = seconds_between(since, until);
  return seconds > 0 ? static_cast<double>(after - before) / seconds : 0;
}

/// A row for the rounds since the last one, if there were any.
void DashboardState::add_row(Time now) {
  last_look_ = now;
  if (phase_ == "starting") return;
  if (phase_ == "running") last_looks_.emplace_back(now, round_.done);
  while (last_looks_.size() > 2 && seconds_between(last_looks_[1].first, now) > kRateWindow)
    last_looks_.pop_front();
  if (round_.done <= row_round_ || lost_rounds_ == 0) return;
  std::vector<double> numbers = {losses_ / static_cast<double>(lost_rounds_), rounds_per_second()};
  if (run_.learns)
    for (std::uint32_t m = 0; m < run_.workers; ++m)
      numbers.push_back(seen_.empty() ? kNoNumber : seen_[m].weight.value_or(kNoNumber));
  rows_.add(round_.done, numbers);
  row_round_ = round_.done;
  losses_ = 0;
  lost_rounds_ = 0;
}

std::string DashboardState::news(Time now) {
  std::unique_lock lock(mutex_);
  const std::size_t rows_before = rows_.size();
  const std::uint64_t round_before = rows_before > 0 ? rows_.round(rows_before - 1) : 0;
  add_row(now);
  const std::uint64_t thinned = rows_.thinned() + tests_.thinned();
  const bool sends_heat_map =
      heat_maps_ != sent_.heat_map &&
      (phase_ != "running" || seconds_between(sent_.heat_map_at, now) >= kHeatMapSeconds);
  if (sends_heat_map) {
    sent_.heat_map = heat_maps_;
    sent_.heat_map_at = now;
  }
  if (std::exchange(sent_.thinned, thinned) != thinned) {
    sent_.tests = tests_.size();
    lock.unlock();
    return whole();
  }
  json all = {{"now", standing(now)}};
  if (!rows_.empty() && (rows_.size() != rows_before || rows_.round(rows_.size() - 1) != round_before))
    all["row"] = {{"at", rows_.size() - 1}, {"numbers", row(rows_.size() - 1)}};
  for (; sent_.tests < tests_.size(); ++sent_.tests)
    all["tests"].push_back({{"at", sent_.tests}, {"numbers", test(sent_.tests)}});
  if (sends_heat_map) all["heat_map"] = heat_map();
  return event("news", all);
}

std::string DashboardState::whole() const {
  const std::lock_guard lock(mutex_);
  json all = {
      {"run", run()}, {"now", standing(last_look_)}, {"rows", json::array()}, {"tests", json::array()}};
  for (std::size_t i = 0; i < rows_.size(); ++i) all["rows"].push_back(row(i));
  for (std::size_t i = 0; i < tests_.size(); ++i) all["tests"].push_back(test(i));
  if (heat_maps_ > 0) all["heat_map"] = heat_map();
  return event("whole", all);
}

json DashboardState::run() const {
  return {{"title", run_.title},   {"about", run_.about},   {"remark", run_.remark},
          {"rounds", run_.rounds}, {"learns", run_.learns}, {"workers", run_.workers}};
}

json DashboardState::row(std::size_t row) const {
  json numbers = {rows_.round(row)};
  for (std::size_t i = 0; i < kLossAndRate + (run_.learns ? run_.workers : 0); ++i)
    numbers.push_back(short_number(rows_.number(row, i)));
  return numbers;
}

json DashboardState::test(std::size_t row) const {
  return {tests_.round(row), short_number(tests_.number(row, 0)), short_number(tests_.number(row, 1))};
}

json DashboardState::standing(Time now) const {
  const double rate = rounds_per_second();
  const std::uint64_t left = run_.rounds - std::min(run_.rounds, round_.done);
  json all = {
      {"phase", phase_},
      {"done", round_.done},
      {"loss", short_number(round_.loss)},
      {"rate", short_number(rate)},
      {"left", rate > 0 ? short_number(static_cast<double>(left) / rate) : json()},
      {"weighted", weighted_},
      {"wire", {{"up", round_.wire.up}, {"down", round_.wire.down}, {"float32", round_.wire.float32}}},
      {"workers", workers(now)}};
  const auto describe = [](const DashboardTest& test) {
    return json{
        {"round", test.round}, {"accuracy", short_number(test.accuracy)}, {"loss", short_number(test.loss)}};
  };
  if (tested_) all["test"] = describe(*tested_);
  if (best_) all["best"] = describe(*best_);
  return all;
}

json DashboardState::workers(Time now) const {
  const Attendance::Now attendance = attendance_.now();
  const double rate = rounds_per_second();
  const bool others_answered = std::ranges::any_of(attendance.seats, &Attendance::Seat::answered);
  json all = json::array();
  for (std::uint32_t m = 0; m < run_.workers; ++m) {
    const DashboardWorker worker = seen_.empty() ? DashboardWorker{} : seen_[m];
    Sighting sighting;
    sighting.voted_last_round = voted_round_[m] == round_.done ||
                                std::ranges::none_of(voted_round_, [](auto round) { return round > 0; });
    std::optional<Time> seen_at = voted_at_[m];
    json entry = {{"name", fmt::format("worker {}", m)}};
    bool suspected = worker.suspected;
    if (attendance.seats.empty()) {  // it is hosted by a process of the run
      sighting.has_come = round_.done > 0;
      sighting.connected = sighting.voted_last_round;
    } else {
      const Attendance::Seat& seat = attendance.seats[m];
      if (!seat.name.empty()) entry["name"] = seat.name;
      sighting.has_come = !seat.name.empty();
      sighting.connected = seat.connected;
      sighting.answered = seat.answered;
      sighting.others_answered = others_answered;
      sighting.open_seconds = seconds_between(attendance.opened, now);
      sighting.usual_seconds = rate > 0 ? 1 / rate : 0;
      if (seat.seen) seen_at = seat.seen;
      if (seat.wrong_model) entry["wrong_model"] = true;
      suspected = suspected || seat.wrong_model;
    }
    entry["state"] = name_of(presence_of(sighting));
    entry["suspected"] = suspected;
    entry["mark"] = worker.mark;
    entry["batch"] = short_number(worker.batch);
    entry["error_rate"] = short_number(worker.error_rate);
    entry["weight"] = short_number(worker.weight);
    entry["say"] = short_number(worker.say);
    entry["voted"] = voted_round_[m];
    entry["seen"] = seen_at ? json(std::max(0.0, std::round(seconds_between(*seen_at, now)))) : json();
    all.push_back(std::move(entry));
  }
  return all;
}

json DashboardState::heat_map() const {
  json values = json::array();  // in thousandths, which are shorter
  for (const double value : heat_map_.values)
    values.push_back(std::isnan(value) ? json() : json(std::lround(1000 * value)));
  return {{"title", heat_map_.title},
          {"remark", heat_map_.remark},
          {"row_title", heat_map_.row_title},
          {"column_title", heat_map_.column_title},
          {"value_title", heat_map_.value_title},
          {"rows", heat_map_.rows},
          {"columns", heat_map_.columns},
          {"low_is_good", heat_map_.low_is_good},
          {"reach", heat_map_.values.empty() ? 0.5 : heat_map_reach(heat_map_)},
          {"values", std::move(values)}};
}

}  // namespace signvote
