// The curves of a comparison's page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/chart.h"
#include "report/html.h"
#include "report/markup.h"

namespace signvote::html {
namespace {

constexpr std::size_t kMostRows = 60;  // of the numbers below the curves

struct Quantity {
  std::string title;
  bool is_loss = false;
  std::optional<double> of(const ComparedTest& test) const {
    if (is_loss) return test.loss && std::abs(*test.loss) < 1e30 ? test.loss : std::nullopt;
    return test.accuracy ? std::optional(100 * *test.accuracy) : std::nullopt;
  }
};

struct Progress {  // what is from left to right
  std::string title;
  bool is_bits = false;
  bool in_megabytes = false;
  double of(const ComparedTest& test, const ComparedRun& run) const {
    if (!is_bits) return static_cast<double>(test.round);
    return in_megabytes ? megabytes(run, test.bits).value_or(0) : test.bits;
  }
};

ChartLine line_of(const ComparedGroup& group, const std::vector<ComparedTest>& tests,
                  const Quantity& quantity, const Progress& progress) {
  ChartLine line{group.style, false, {}};
  for (const ComparedTest& test : tests) {
    const std::optional<double> y = quantity.of(test);
    if (!y) continue;
    const double x = progress.of(test, group.runs.front());
    std::string told = fmt::format(
        "{}: {}, round {}", group.title,
        quantity.is_loss ? fmt::format("loss {:.4f}", *y) : fmt::format("{:.2f} %", *y), test.round);
    if (progress.is_bits)
      told += fmt::format(", {:.4g} {}", x, progress.in_megabytes ? "MB" : "bits per parameter");
    if (group.runs.size() > 1) told += fmt::format(" (mean of {} seeds)", group.runs.size());
    line.points.push_back({x, *y, readable(told)});
  }
  return line;
}

Chart chart_of(const ComparedPanel& panel, const Quantity& quantity, const Progress& progress) {
  Chart chart;
  chart.description = with_panel(panel, quantity.title + " over " + progress.title + ".");
  for (const ComparedGroup& group : panel.groups) {
    if (group.runs.size() > 1)
      for (const ComparedRun& run : group.runs) {
        chart.lines.push_back(line_of(group, run.tests, quantity, progress));
        chart.lines.back().thin = true;
      }
    chart.lines.push_back(line_of(group, mean_tests(group), quantity, progress));
    if (!chart.lines.back().points.empty())
      chart.description += fmt::format(" {}; then {}.", chart.lines.back().points.front().told,
                                       chart.lines.back().points.back().told);
  }
  chart.description = readable(chart.description);
  return chart;
}

/// From a multiple of 5 %, without the climb in the first tenth of the rounds.
ChartAxis accuracy_axis(const Comparison& comparison, const std::string& title) {
  std::uint64_t last = 0;
  for (const ComparedRun* run : runs_of(comparison)) last = std::max(last, run->rounds_done);
  double low = 100, high = 0;
  for (const ComparedRun* run : runs_of(comparison))
    for (const ComparedTest& test : run->tests) {
      if (!test.accuracy) continue;
      high = std::max(high, 100 * *test.accuracy);
      if (10 * test.round >= last) low = std::min(low, 100 * *test.accuracy);
    }
  high = std::clamp(5 * std::ceil(high / 5), 5.0, 100.0);
  return {title, std::clamp(5 * std::floor(low / 5), 0.0, high - 5), high, false};
}

/// All panels side by side, on the same axes.
void add_charts(Node body, const Comparison& comparison, const Quantity& quantity, const Progress& progress,
                const std::string& text) {
  std::vector<Chart> charts;
  std::vector<double> xs, ys;
  for (const ComparedPanel& panel : comparison.panels) {
    charts.push_back(chart_of(panel, quantity, progress));
    for (const ChartLine& line : charts.back().lines)
      for (const ChartPoint& point : line.points) {
        xs.push_back(point.x);
        ys.push_back(point.y);
      }
  }
  if (xs.empty()) return;
  ChartAxis x = axis_of(progress.title, xs, progress.is_bits ? 200 : 1e30);
  ChartAxis y =
      quantity.is_loss ? axis_of(quantity.title, ys, 4) : accuracy_axis(comparison, quantity.title + " (%)");
  if (y.logarithmic) {  // some air
    y.low *= 0.9;
    y.high *= 1.1;
  }
  add(body, "h3", quantity.title + " over " + progress.title);
  add(body, "p", text);
  Node grid = open(body, "div", "grid-of-charts");
  for (std::size_t i = 0; i < charts.size(); ++i) {
    charts[i].x = x;
    charts[i].y = y;
    Node figure = open(grid, "figure");
    if (!comparison.panels[i].title.empty()) add(figure, "figcaption", comparison.panels[i].title);
    draw_chart(figure, charts[i]);
  }
}

/// The curves' numbers as tables, for screen readers and for copying.
void add_numbers(Node body, const Comparison& comparison, const Quantity& quantity) {
  for (const ComparedPanel& panel : comparison.panels) {
    std::set<std::uint64_t> rounds;
    std::vector<std::vector<ComparedTest>> means;
    for (const ComparedGroup& group : panel.groups) {
      means.push_back(mean_tests(group));
      for (const ComparedTest& test : means.back())
        if (quantity.of(test)) rounds.insert(test.round);
    }
    if (rounds.empty()) continue;
    Node details = open(body, "details");
    add(details, "summary", with_panel(panel, quantity.title + " as numbers"));
    Node table = add_table(details, with_panel(panel, quantity.title));
    Node head = open(open(table, "thead"), "tr");
    add_heading(head, "round", "", false);
    for (const ComparedGroup& group : panel.groups) add_heading(head, group.title, "", true);
    Node rows = open(table, "tbody");
    std::size_t index = 0;
    for (const std::uint64_t round : rounds) {
      const bool shown = index++ % (rounds.size() / kMostRows + 1) == 0 || round == *rounds.rbegin();
      if (!shown) continue;
      Node row = open(rows, "tr");
      add_row_name(row, fmt::to_string(round));
      for (const std::vector<ComparedTest>& tests : means) {
        const auto test = std::ranges::find(tests, round, &ComparedTest::round);
        const std::optional<double> value = test == tests.end() ? std::nullopt : quantity.of(*test);
        add(row, "td", value ? fmt::format("{:.{}f}", *value, quantity.is_loss ? 4 : 2) : "–", "number");
      }
    }
  }
}

void add_legend(Node body, const Comparison& comparison) {
  Node legend = open(body, "div", "legend");
  set(legend, "role", "group");
  set(legend, "aria-label", "Lines to show");
  std::set<std::string> named;
  const auto add_box = [&](const std::string& id) {
    Node label = open(legend, "label");
    Node box = open(label, "input");
    set(box, "type", "checkbox");
    set(box, "id", id);
    set(box, "checked", "checked");
    return label;
  };
  for (const ComparedGroup* group : groups_of(comparison)) {
    if (!named.insert(group->label).second) continue;
    Node label = add_box(fmt::format("show{}", group->style % kLineStyles));
    draw_sample(label, group->style);
    add(label, "span", group->title);
  }
  if (has_seeds(comparison)) add(add_box("show-thin"), "span", "single seeds (thin)");
}

}  // namespace

void add_curves(Node body, const Comparison& comparison) {
  add(body, "h2", "Curves");
  const bool any =
      std::ranges::any_of(runs_of(comparison), [](const ComparedRun* run) { return !run->tests.empty(); });
  if (!any) {
    add(body, "p", "No run has tested its model yet, so there is nothing to draw.");
    return;
  }
  add(body, "p",
      std::string(
          "The model is tested now and then on samples that nobody trains on; each mark is such a test. The "
          "boxes hide lines; the pointer on a mark shows its number. Where a line seems to be missing, it "
          "lies below "
          "another.") +
          (has_seeds(comparison) ? " Thin lines are single seeds, thick ones their means." : ""));
  add_legend(body, comparison);
  const bool in_megabytes = std::ranges::all_of(
      runs_of(comparison), [](const ComparedRun* run) { return run->tests.empty() || run->parameters; });
  const Progress rounds{"rounds", false, false};
  const Progress bits{in_megabytes ? "megabytes per worker" : "bits per parameter", true, in_megabytes};
  const Quantity accuracy{"Test accuracy", false}, loss{"Test loss", true};
  add_charts(body, comparison, accuracy, rounds,
             "Who learns most from as many votes? Higher and further left is better.");
  add_charts(body, comparison, accuracy, bits,
             "Who learns most from as much traffic? What a worker that votes in every round has sent and "
             "received so far is from left to right. On slow links this is what costs time.");
  add_charts(
      body, comparison, loss, rounds,
      "Lower is better. The loss also tells how sure the model is, so it may rise while the accuracy stays.");
  add_charts(body, comparison, loss, bits, "The same over the traffic.");
  add_numbers(body, comparison, accuracy);
  add_numbers(body, comparison, loss);
}

std::string style_of_legend(const Comparison& comparison) {
  std::set<unsigned> styles;
  for (const ComparedGroup* group : groups_of(comparison)) styles.insert(group->style % kLineStyles);
  std::string css = "body:has(#show-thin:not(:checked)) figure .thin { display: none }\n";
  for (const unsigned style : styles)
    css += fmt::format("body:has(#show{0}:not(:checked)) figure .s{0} {{ display: none }}\n", style);
  return css;
}

}  // namespace signvote::html
