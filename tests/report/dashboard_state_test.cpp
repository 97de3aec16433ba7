// What the dashboard's page is told.
#include "report/dashboard_state.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace signvote {
namespace {

using nlohmann::json;
using Time = DashboardState::Time;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

json data_of(const std::string& event, const std::string& name) {
  const std::string head = "event: " + name + "\ndata: ";
  EXPECT_EQ(event.rfind(head, 0), 0U) << event;
  EXPECT_EQ(event.substr(event.size() - 2), "\n\n");
  EXPECT_EQ(event.find('\n', head.size()), event.size() - 2) << "an event is one line of data";
  return json::parse(event.substr(head.size()));
}

class State : public testing::Test {
 protected:
  static constexpr std::uint32_t kWorkers = 3;

  DashboardState make(bool learns = true) {
    DashboardRun run;
    run.title = "runs \"of\" caf\xe9";  // no UTF-8
    run.workers = kWorkers;
    run.rounds = 100;
    run.learns = learns;
    return DashboardState(run, attendance_);
  }
  static Time at(double seconds) {
    return Time() + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds));
  }
  static DashboardRound round(std::uint64_t done, double loss, std::vector<std::uint64_t> votes) {
    return {done, loss, std::move(votes), {1000.0 * static_cast<double>(done), 500, 64000}};
  }
  static std::vector<DashboardWorker> workers() {
    DashboardWorker liar{64, 0.7, -0.85, 0.2, "liar?", true};
    return {liar, {64, 0.3, 0.85, 0.4, "", false}, {4, {}, {}, 0.4, "new", false}};
  }

  Attendance attendance_;
};

TEST_F(State, begins_with_nothing) {
  const auto state = make();
  const json whole = data_of(state.whole(), "whole");
  EXPECT_EQ(whole["now"]["phase"], "starting");
  EXPECT_EQ(whole["now"]["done"], 0);
  EXPECT_TRUE(whole["rows"].empty());
  EXPECT_TRUE(whole["tests"].empty());
  EXPECT_FALSE(whole.contains("heat_map"));
  EXPECT_EQ(whole["now"]["workers"].size(), kWorkers);
  EXPECT_EQ(whole["run"]["rounds"], 100);
}

TEST_F(State, a_row_has_the_mean_of_the_rounds_since_the_last_look) {
  auto state = make();
  state.add_round(round(0, kNone, {0, 0, 0}), at(0));
  EXPECT_FALSE(data_of(state.news(at(0)), "news").contains("row"));
  state.add_round(round(1, 2.0, {1, 1, 1}), at(0.5));
  state.add_round(round(2, 1.0, {2, 2, 2}), at(1));
  state.look(workers(), true, {});
  const json news = data_of(state.news(at(1)), "news");
  EXPECT_EQ(news["row"]["at"], 0);
  const json& row = news["row"]["numbers"];
  EXPECT_EQ(row[0], 2);
  EXPECT_EQ(row[1], 1.5);
  EXPECT_EQ(row[2], 2.0) << "rounds a second";
  EXPECT_EQ(row[3], -0.85);
  EXPECT_TRUE(row[5].is_null());
  EXPECT_EQ(news["now"]["left"], 49.0);
  EXPECT_EQ(news["now"]["loss"], 1.0);
  EXPECT_EQ(news["now"]["wire"]["up"], 2000);
  EXPECT_FALSE(data_of(state.news(at(2)), "news").contains("row")) << "no round since";
}

TEST_F(State, time_left_grows_while_no_round_is_decided) {
  auto state = make();
  state.add_round(round(0, kNone, {0, 0, 0}), at(0));
  state.add_round(round(10, 1, {10, 10, 10}), at(1));
  const double left = data_of(state.news(at(1)), "news")["now"]["left"];
  const double later = data_of(state.news(at(5)), "news")["now"]["left"];
  EXPECT_GT(later, left);
  for (int i = 6; i < 120; ++i) state.news(at(i));
  EXPECT_TRUE(data_of(state.news(at(120)), "news")["now"]["left"].is_null());
}

TEST_F(State, a_diverged_loss_is_a_gap) {
  auto state = make();
  state.add_round(round(0, kNone, {0, 0, 0}), at(0));
  state.add_round(round(1, INFINITY, {1, 1, 1}), at(1));
  EXPECT_TRUE(data_of(state.news(at(1)), "news")["row"]["numbers"][1].is_null());
  state.add_round(round(2, 3, {2, 2, 2}), at(2));
  EXPECT_EQ(data_of(state.news(at(2)), "news")["row"]["numbers"][1], 3.0);
}

TEST_F(State, tests_are_told_once_and_the_best_is_remembered) {
  auto state = make();
  state.add_test({25, 0.8, 0.6});
  state.add_test({50, 0.7, 0.5});
  const json news = data_of(state.news(at(1)), "news");
  ASSERT_EQ(news["tests"].size(), 2U);
  EXPECT_EQ(news["tests"][1]["at"], 1);
  EXPECT_EQ(news["tests"][1]["numbers"], json::array({50, 0.7, 0.5}));
  EXPECT_EQ(news["now"]["test"]["round"], 50);
  EXPECT_EQ(news["now"]["best"]["round"], 25);
  EXPECT_FALSE(data_of(state.news(at(2)), "news").contains("tests"));
  EXPECT_EQ(data_of(state.whole(), "whole")["tests"].size(), 2U);
}

TEST_F(State, without_accuracies_the_lowest_loss_is_the_best) {
  auto state = make();
  state.add_test({25, {}, 0.6});
  state.add_test({50, {}, 0.5});
  state.add_test({75, {}, {}});  // a run that cannot be tested
  EXPECT_EQ(data_of(state.news(at(1)), "news")["now"]["best"]["round"], 50);
}

TEST_F(State, what_came_before_is_there_again) {
  auto state = make();
  state.add_past({25, 0.8, 0.6}, 0.7, 12);
  state.add_past({50, 0.9, 0.5}, 0.6, 11);
  state.add_round(round(50, kNone, {50, 50, 50}), at(0));
  state.news(at(0));
  const json whole = data_of(state.whole(), "whole");
  EXPECT_EQ(whole["rows"].size(), 2U);
  EXPECT_EQ(whole["rows"][1][0], 50);
  EXPECT_EQ(whole["rows"][1][1], 0.6);
  EXPECT_TRUE(whole["rows"][1][3].is_null()) << "weights are not in metrics.jsonl";
  EXPECT_EQ(whole["tests"].size(), 2U);
  state.add_round(round(51, 0.5, {51, 51, 51}), at(1));
  EXPECT_EQ(data_of(state.news(at(1)), "news")["row"]["at"], 2);
}

TEST_F(State, a_page_that_came_before_the_past_was_read_gets_it) {
  auto state = make();
  EXPECT_TRUE(state.news(at(0)).starts_with("event: news"));
  state.add_past({25, 0.8, 0.6}, 0.7, 12);
  state.add_past({50, 0.9, 0.5}, 0.6, 11);
  EXPECT_EQ(data_of(state.news(at(1)), "whole")["rows"].size(), 2U);
  EXPECT_TRUE(state.news(at(2)).starts_with("event: news"));
}

TEST_F(State, a_thinned_history_is_sent_whole) {
  auto state = make(false);
  state.add_round(round(0, kNone, {0, 0, 0}), at(0));
  int wholes = 0;
  for (int i = 1; i <= 3000; ++i) {
    state.add_round(round(i, 1, {0, 0, 0}), at(i));
    wholes += state.news(at(i)).starts_with("event: whole");
  }
  EXPECT_EQ(wholes, 3) << "after 480, 960 and 1920 rounds";
  const json whole = data_of(state.whole(), "whole");
  EXPECT_GE(whole["rows"].size(), 200U);
  EXPECT_LE(whole["rows"].size(), 480U);
  EXPECT_EQ(whole["rows"].back()[0], 3000);
}

TEST_F(State, is_small_with_many_workers_and_rounds) {
  DashboardRun run;
  run.workers = 64;
  run.rounds = 100'000;
  run.learns = true;
  DashboardState state(run, attendance_);
  std::vector<DashboardWorker> many(64, {64, 0.31234, 0.789123, 0.015625, "", false});
  HeatMap map;
  map.rows.resize(64, "worker");
  map.columns.resize(64, "worker");
  map.values.resize(64 * 64, 0.61234);
  state.look(many, true, map);
  for (int i = 0; i <= 1'500; ++i) {  // which thins it more than once
    state.add_round(round(10 * i, i == 0 ? kNone : 1.2345, std::vector<std::uint64_t>(64, i)), at(i));
    state.news(at(i));
  }
  EXPECT_LT(state.whole().size(), 500'000U);
  EXPECT_LT(state.news(at(1'501)).size(), 50'000U);
}

TEST_F(State, workers_of_the_process_are_gone_if_they_did_not_vote) {
  auto state = make();
  state.add_round(round(0, kNone, {0, 0, 0}), at(0));
  state.add_round(round(1, 1, {1, 1, 0}), at(1));
  state.look(workers(), true, {});
  const json seen = data_of(state.news(at(4)), "news")["now"]["workers"];
  EXPECT_EQ(seen[0]["state"], "present");
  EXPECT_EQ(seen[0]["suspected"], true);
  EXPECT_EQ(seen[0]["seen"], 3);
  EXPECT_EQ(seen[0]["voted"], 1);
  EXPECT_EQ(seen[1]["suspected"], false);
  EXPECT_EQ(seen[2]["state"], "gone");
  EXPECT_EQ(seen[2]["mark"], "new");
  EXPECT_TRUE(seen[2]["weight"].is_null());
}

TEST_F(State, a_server_tells_who_comes_and_goes) {
  auto state = make();
  attendance_.begin({"alice", "", ""});
  attendance_.joined(1, "bob");
  state.add_round(round(0, kNone, {0, 0, 0}), at(0));
  json seen = data_of(state.news(std::chrono::system_clock::now()), "news")["now"]["workers"];
  EXPECT_EQ(seen[0]["name"], "alice");
  EXPECT_EQ(seen[0]["state"], "gone");
  EXPECT_EQ(seen[1]["name"], "bob");
  EXPECT_EQ(seen[1]["state"], "present");
  EXPECT_EQ(seen[2]["name"], "worker 2");
  EXPECT_EQ(seen[2]["state"], "awaited");
  attendance_.model_compared(1, false);
  attendance_.left(1);
  seen = data_of(state.news(std::chrono::system_clock::now()), "news")["now"]["workers"];
  EXPECT_EQ(seen[1]["state"], "gone");
  EXPECT_EQ(seen[1]["suspected"], true);
  EXPECT_EQ(seen[1]["wrong_model"], true);
}

TEST(Presence, is_what_was_seen_last) {
  Sighting seen;
  EXPECT_EQ(presence_of(seen), Presence::awaited);
  seen.has_come = true;
  EXPECT_EQ(presence_of(seen), Presence::gone);
  seen.connected = true;
  EXPECT_EQ(presence_of(seen), Presence::late) << "the last round did without it";
  seen.voted_last_round = true;
  EXPECT_EQ(presence_of(seen), Presence::present);
  seen.others_answered = true;
  seen.open_seconds = 2;
  EXPECT_EQ(presence_of(seen), Presence::present) << "it is still computing";
  seen.open_seconds = 4;
  EXPECT_EQ(presence_of(seen), Presence::late);
  seen.usual_seconds = 10;
  EXPECT_EQ(presence_of(seen), Presence::present) << "a round takes longer here";
  seen.usual_seconds = 1;
  seen.others_answered = false;
  EXPECT_EQ(presence_of(seen), Presence::present) << "all are computing";
  seen.voted_last_round = false;
  seen.answered = true;
  EXPECT_EQ(presence_of(seen), Presence::present) << "it has come back";
}

TEST_F(State, a_heat_map_is_sent_when_it_is_new_and_not_too_often) {
  auto state = make();
  HeatMap map;
  map.rows = {"0", "1"};
  map.columns = {"a"};
  map.values = {0.25, kNone};
  state.add_round(round(0, kNone, {0, 0, 0}), at(0));
  state.look(workers(), true, map);
  const json told = data_of(state.news(at(10)), "news")["heat_map"];
  EXPECT_EQ(told["values"], json::array({250, nullptr}));
  EXPECT_EQ(told["reach"], 0.25);
  EXPECT_FALSE(data_of(state.news(at(20)), "news").contains("heat_map"));
  state.look(workers(), true, map);
  EXPECT_TRUE(data_of(state.news(at(21)), "news").contains("heat_map"));
  state.look(workers(), true, map);
  EXPECT_FALSE(data_of(state.news(at(22)), "news").contains("heat_map"));
  EXPECT_TRUE(data_of(state.news(at(25)), "news").contains("heat_map"));
}

TEST_F(State, the_end_is_told) {
  auto state = make();
  state.add_round(round(100, 1, {1, 1, 1}), at(0));
  state.end("finished");
  EXPECT_EQ(data_of(state.news(at(1)), "news")["now"]["phase"], "finished");
}

}  // namespace
}  // namespace signvote
