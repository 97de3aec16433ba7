// The numbers that runs are compared by, and what becomes of hostile names in each format.
#include "report/comparison.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <pugixml.hpp>

#include "report/chart.h"
#include "report/comparison_formats.h"
#include "report/markup.h"

namespace signvote {
namespace {

/// A test every 25 rounds, 1.5 bits for each parameter in each.
ComparedRun run_of(const std::vector<double>& accuracies, std::uint64_t seed = 0) {
  ComparedRun run;
  run.folder = "runs/some";
  run.seed = seed;
  for (std::size_t i = 0; i < accuracies.size(); ++i)
    run.tests.push_back(
        {25 * (i + 1), accuracies[i], 1 - accuracies[i], 1.5 * 25 * static_cast<double>(i + 1)});
  run.rounds_done = run.rounds_asked = 25 * accuracies.size();
  run.finished = true;
  run.parameters = 1'000'000;
  run.bits_per_parameter_up = 0.8;
  run.bits_per_parameter_down = 0.7;
  return run;
}

ComparedGroup group_of(const std::string& name, std::vector<ComparedRun> runs) {
  return {name, name, 0, {}, std::move(runs)};
}

Comparison comparison_of(std::vector<ComparedGroup> groups) { return {{{"", std::move(groups)}}, {}, {}}; }

/// The cell of a column in the table of results.
std::string cell(const Comparison& comparison, const std::string& heading, std::size_t group) {
  const auto columns = result_columns(comparison);
  const auto found = std::ranges::find(columns, heading, &ComparedColumn::heading);
  return found == columns.end() ? "no such column" : found->cells.at(group);
}

TEST(Comparison, the_first_test_at_a_target_is_the_first) {
  EXPECT_TRUE(rc::check("no test before it reaches the target", [] {
    const auto shares = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 101));
    const double target = *rc::gen::inRange(0, 101) / 100.0;
    std::vector<double> accuracies;
    for (const int share : shares) accuracies.push_back(share / 100.0);
    const ComparedRun run = run_of(accuracies);
    const ComparedTest* found = first_at(run, target);
    const bool any = std::ranges::any_of(accuracies, [target](double a) { return a >= target; });
    RC_ASSERT((found != nullptr) == any);
    if (found == nullptr) return;
    RC_ASSERT(*found->accuracy >= target);
    for (const ComparedTest& test : run.tests)
      if (test.round < found->round) RC_ASSERT(*test.accuracy < target);
  }));
}

TEST(Comparison, the_best_test_is_the_first_of_the_highest_or_of_the_lowest_loss) {
  EXPECT_EQ(best_test(run_of({0.5, 0.9, 0.9, 0.8}))->round, 50U);
  ComparedRun run = run_of({0.5, 0.9, 0.9, 0.8});
  for (ComparedTest& test : run.tests) test.accuracy.reset();
  EXPECT_EQ(best_test(run)->round, 50U);
  run.tests[1].loss.reset();  // infinite
  EXPECT_EQ(best_test(run)->round, 75U);
  EXPECT_EQ(best_test(run_of({})), nullptr);
}

TEST(Comparison, rounds_and_megabytes_to_targets) {
  const Comparison comparison = comparison_of(
      {group_of("one", {run_of({0.5, 0.91, 0.97, 0.985})}),
       group_of("two", {run_of({0.5, 0.91, 0.97, 0.985}, 0), run_of({0.5, 0.8, 0.9, 0.96}, 1)})});
  EXPECT_EQ(cell(comparison, "rounds to 90 %", 0), "50");
  EXPECT_EQ(cell(comparison, "rounds to 98 %", 0), "100");
  EXPECT_EQ(cell(comparison, "MB to 98 %", 0), "18.8");  // 100 rounds of 1.5 bits for 10^6 parameters
  EXPECT_EQ(cell(comparison, "rounds to 90 %", 1), "62 (50 to 75)");
  EXPECT_EQ(cell(comparison, "rounds to 98 %", 1), "100 (1 of 2 seeds)");
  EXPECT_EQ(cell(comparison, "last accuracy (%)", 1), "97.25 (96.00 to 98.50)");
  EXPECT_EQ(cell(comparison, "bits per parameter, up + down", 0), "0.80 + 0.70");
}

TEST(Comparison, what_was_not_reached_is_told_apart_from_what_is_not_yet) {
  ComparedRun going_on = run_of({0.5});
  going_on.finished = false;
  going_on.rounds_asked = 400;
  const Comparison comparison =
      comparison_of({group_of("done", {run_of({0.5})}), group_of("not", {going_on})});
  EXPECT_EQ(cell(comparison, "rounds to 90 %", 0), "never");
  EXPECT_EQ(cell(comparison, "rounds to 90 %", 1), "not yet");
  EXPECT_EQ(cell(comparison, "rounds", 1), "25, not finished");
  EXPECT_EQ(state_of(going_on), "not finished: 25 of 400 rounds so far");
  EXPECT_NE(findings(comparison).back().find("1 of the 2 runs is not finished"), std::string::npos);
  going_on.rounds_done = 1;
  going_on.finished = true;
  EXPECT_TRUE(state_of(going_on).starts_with("ended after 1 round, because")) << state_of(going_on);
  going_on.rounds_done = 0;
  going_on.rounds_asked = 1;
  going_on.finished = false;
  EXPECT_EQ(state_of(going_on), "not finished: 0 of 1 round so far");
}

TEST(Comparison, runs_without_accuracy_are_compared_by_their_loss) {
  ComparedRun run = run_of({0.5, 0.9, 0.8});
  for (ComparedTest& test : run.tests) test.accuracy.reset();
  const Comparison comparison = comparison_of({group_of("loss", {run})});
  EXPECT_FALSE(has_accuracy(comparison));
  EXPECT_EQ(cell(comparison, "rounds to 98 %", 0), "no such column");
  EXPECT_EQ(cell(comparison, "last loss", 0), "0.2000");
  EXPECT_EQ(cell(comparison, "lowest loss", 0), "0.1000");
}

TEST(Comparison, the_mean_is_over_the_rounds_that_all_seeds_have_tested) {
  const auto means = mean_tests(group_of("two", {run_of({0.5, 0.9, 0.95}), run_of({0.7, 0.8}, 1)}));
  ASSERT_EQ(means.size(), 2U);
  EXPECT_DOUBLE_EQ(*means[0].accuracy, 0.6);
  EXPECT_DOUBLE_EQ(*means[1].accuracy, 0.85);
  EXPECT_EQ(means[1].round, 50U);
  EXPECT_DOUBLE_EQ(means[1].bits, 75);
}

TEST(Comparison, findings_name_the_highest_and_the_first) {
  const auto found = findings(comparison_of({group_of("slow", {run_of({0.5, 0.6, 0.7, 0.96})}),
                                             group_of("quick", {run_of({0.5, 0.96, 0.97, 0.99})})}));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0],
            "Highest at the end is quick, with an accuracy of 99.00 %, 3.00 points more than slow. 98 % is "
            "reached after 100 rounds by quick; not by slow.");
  EXPECT_NE(found[1].find("at most 1.50 bits"), std::string::npos);
  EXPECT_NE(found[1].find("43 times"), std::string::npos);
}

TEST(Comparison, tics_are_round_numbers_inside_the_axis) {
  EXPECT_TRUE(rc::check("they ascend, lie in the range and are few", [] {
    const double low = *rc::gen::inRange(-1000, 1000) / 7.0;
    const double high = low + *rc::gen::inRange(1, 1'000'000) / 100.0;
    const std::vector<double> tics = tics_of({"", low, high, false});
    RC_ASSERT(tics.size() >= 2U);
    RC_ASSERT(tics.size() <= 11U);
    for (std::size_t i = 0; i < tics.size(); ++i) {
      RC_ASSERT(tics[i] >= low - 1e-6 * (high - low));
      RC_ASSERT(tics[i] <= high + 1e-6 * (high - low));
      if (i > 0) RC_ASSERT(tics[i] > tics[i - 1]);
    }
  }));
  EXPECT_TRUE(rc::check("a logarithmic axis has a few too, however far it reaches", [] {
    const double low = std::pow(10.0, *rc::gen::inRange(-300, 280) / 10.0);
    const double high = low * std::pow(10.0, *rc::gen::inRange(10, 200) / 10.0);
    const std::vector<double> tics = tics_of({"", low, high, true});
    RC_ASSERT(!tics.empty());
    RC_ASSERT(tics.size() <= 12U);
    for (const double tic : tics) RC_ASSERT(tic >= low * 0.999 && tic <= high * 1.001);
  }));
}

// What anybody may have named a folder, a worker or a data set.
rc::Gen<std::string> hostile_text() {
  return rc::gen::oneOf(rc::gen::element<std::string>("<script>alert(1)</script>", "</title><script>",
                                                      "\"><img src=x onerror=alert(1)>", "]]>", "&lt;b&gt;",
                                                      "a|b\n\n# c", "```\n<b>", "=cmd()", "'; rm -rf ~ #",
                                                      "\xff\xfe\x80", std::string("nul\0byte", 8), "\x1b[31m",
                                                      "\xE2\x80\xAE"
                                                      "gpj.exe",
                                                      "[x](javascript:alert(1))", ""),
                        rc::gen::string<std::string>());
}

Comparison with_texts(const std::function<std::string()>& text) {
  ComparedRun run = run_of({0.5, 0.9});
  run.folder = text();
  run.model_sha256 = text();
  run.best_sha256 = text();
  run.command = text();
  run.command_note = text();
  run.settings = text();
  run.workers = {{text(), 4, 3, 0.4, 0.4, 1, text()}};
  run.workers_note = text();
  ComparedGroup group{text(), text(), 2, {text()}, {run, run}};
  ComparedGroup other = group;
  other.label += "2";
  return {{{text() + "1", {group, other}}, {text(), {group}}},
          {{text(), text(), ""}},
          {{text(), text(), text()}}};
}

/// The names of all elements in order.
struct Names : pugi::xml_tree_walker {
  std::vector<std::string> names;
  bool for_each(pugi::xml_node& node) override {
    if (node.type() == pugi::node_element) names.emplace_back(node.name());
    return true;
  }
};

std::vector<std::string> elements(const std::string& page, pugi::xml_document& document) {
  const pugi::xml_parse_result result = document.load_string(page.c_str(), pugi::parse_full);
  EXPECT_TRUE(result) << result.description();
  Names walker;
  document.traverse(walker);
  return walker.names;
}

TEST(Comparison, a_page_has_the_same_elements_whatever_names_say) {
  pugi::xml_document harmless;
  const auto expected = elements(comparison_html(with_texts([] { return "a"; })), harmless);
  EXPECT_EQ(std::ranges::count(expected, "script"), 0);
  EXPECT_TRUE(rc::check("names are text", [&] {
    const Comparison comparison = with_texts([] { return *hostile_text(); });
    const std::string page = comparison_html(comparison);
    pugi::xml_document document;
    auto found = elements(page, document);
    RC_ASSERT(page.find('\0') == std::string::npos);
    // Legends name what is called the same once, and an empty best SHA-256 is left out.
    const auto without = [](std::vector<std::string> names) {
      std::ranges::sort(names);
      names.erase(std::unique(names.begin(), names.end()), names.end());
      return names;
    };
    RC_ASSERT(without(found) == without(expected));
    for (const pugi::xpath_node& node : document.select_nodes("//@*"))
      RC_ASSERT(!std::string(node.attribute().name()).starts_with("on"));
    RC_ASSERT(document.select_nodes("//@href | //@src").empty());
  }));
}

TEST(Comparison, a_page_reads_back_as_the_names_were) {
  const std::string name = "<script>alert('x')</script> & \"co\"";
  pugi::xml_document document;
  elements(comparison_html(with_texts([&] { return name; })), document);
  EXPECT_EQ(std::string(document.select_node("//div[@class='run']/pre").node().text().get()), name);
  EXPECT_FALSE(document.select_node("//script"));
}

TEST(Comparison, markdown_has_no_html_and_keeps_its_rows) {
  EXPECT_TRUE(rc::check("a text stays in its cell", [] {
    const std::string text = markdown_text(*hostile_text());
    RC_ASSERT(text.find_first_of("<\n") == std::string::npos);
    for (std::size_t i = 0; i < text.size(); ++i)
      if (std::string("|`[]*_#~").find(text[i]) != std::string::npos) RC_ASSERT(i > 0 && text[i - 1] == '\\');
  }));
}

TEST(Comparison, csv_fields_are_quoted_and_no_formulas) {
  EXPECT_EQ(csv_field("14x4,904"), "\"14x4,904\"");
  EXPECT_EQ(csv_field("say \"hi\""), "\"say \"\"hi\"\"\"");
  EXPECT_EQ(csv_field("=cmd()"), "'=cmd()");
  EXPECT_EQ(csv_field("plain"), "plain");
}

TEST(Comparison, shell_words_are_quoted) {
  EXPECT_EQ(shell_word("14x4,904"), "14x4,904");
  EXPECT_EQ(shell_word("my data"), "'my data'");
  EXPECT_EQ(shell_word("$(rm -rf ~)'s"), "'$(rm -rf ~)'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace signvote
