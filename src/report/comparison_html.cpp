// A comparison as one page: text, tables and charts, without scripts, so that what a run's names contain can
// do nothing. pugixml escapes all texts. The page is well-formed XML too.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <pugixml.hpp>
#include <set>
#include <sstream>

#include "report/chart.h"
#include "report/comparison_formats.h"
#include "report/comparison_style.h"
#include "report/markup.h"
#include "signvote/version.h"

namespace signvote {
namespace {

using Node = pugi::xml_node;

constexpr std::size_t kMostRows = 60;  // of the numbers below the curves

/// An element with a text, which may be empty: HTML has no <td/>.
Node add(Node parent, const char* tag, const std::string& text, const char* classes = nullptr) {
  Node node = parent.append_child(tag);
  if (classes != nullptr) node.append_attribute("class") = classes;
  node.append_child(pugi::node_pcdata).set_value(readable(text).c_str());
  return node;
}

Node add(Node parent, const char* tag, const char* text, const char* classes = nullptr) {
  return add(parent, tag, std::string(text), classes);
}

Node open(Node parent, const char* tag, const char* classes = nullptr) {
  Node node = parent.append_child(tag);
  if (classes != nullptr) node.append_attribute("class") = classes;
  return node;
}

void set(Node node, const char* attribute, const std::string& value) {
  node.append_attribute(attribute) = readable(value).c_str();
}

/// A table in a frame that can be moved sideways where the screen is narrow, by the keyboard too.
Node add_table(Node parent, const std::string& name) {
  Node frame = open(parent, "div", "wide");
  set(frame, "role", "region");
  set(frame, "aria-label", name);
  set(frame, "tabindex", "0");
  return open(frame, "table");
}

Node add_heading(Node row, const std::string& text, const std::string& help, bool number) {
  std::string unbroken = text;
  if (text.ends_with(" %")) unbroken.replace(text.size() - 2, 1, "\u00a0");
  Node cell = add(row, "th", unbroken, number ? "number" : nullptr);
  set(cell, "scope", "col");
  if (!help.empty()) set(cell, "title", help);
  return cell;
}

Node add_row_name(Node row, const std::string& text) {
  Node cell = add(row, "th", text);
  set(cell, "scope", "row");
  return cell;
}

std::string with_panel(const ComparedPanel& panel, const std::string& text) {
  return panel.title.empty() ? text : panel.title + ", " + text;
}

std::string seeds_of(const ComparedGroup& group) {
  std::string text;
  for (const ComparedRun& run : group.runs) text += fmt::format("{}{}", text.empty() ? "" : ", ", run.seed);
  return text;
}

void explain(Node body) {
  add(body, "h2", "What these runs do");
  add(body, "p",
      "Several workers train one model together, each on data of its own, over slow links. Nobody sends its "
      "data, "
      "and nobody sends numbers: only signs, up or down, and a vote decides. This is one round:");
  Node flow = open(body, "ol", "flow");
  const auto step = [&flow](const char* name, const char* text) {
    Node item = open(flow, "li");
    add(item, "strong", name);
    add(item, "span", text);
  };
  step(
      "1. Look",
      "Every worker takes some samples of its data, its batch, and works out for each parameter of the model "
      "whether it should become larger or smaller.");
  step("2. Ballot", "It sends only these signs: about one bit for each parameter, where a number takes 32.");
  step("3. Vote",
       "For each parameter by itself, the ballots are weighed and counted. The result is the verdict, a sign "
       "for "
       "each parameter.");
  step("4. Step",
       "Every worker moves every parameter by the same small step in the direction of the verdict.");
  Node words = open(body, "dl");
  const auto word = [&words](const char* name, const char* text) {
    add(words, "dt", name);
    add(words, "dd", text);
  };
  word("ballot", "What one worker says in one round: up, down, or nothing, for each parameter.");
  word(
      "weight",
      "How much a worker's ballot counts. In a plain majority (mv, signSGD-MV) all count the same, so that "
      "many "
      "workers with small batches outvote the one that has seen more. The other methods learn how often each "
      "worker is wrong (its error rate p) and weigh it by ln((1 - p)/p): one that guesses counts nothing, "
      "one "
      "that is nearly always right counts a lot, and of one that lies the opposite is taken.");
  word("round", "One ballot of each worker, one verdict, one step.");
  word("accuracy", "The share of samples, never used for training, that the model gets right.");
  word("loss", "How far the model's answers are off; lower is better.");
  word("seed",
       "The number that all chance of a run comes from. Runs that differ in their seeds alone show how much "
       "is luck.");
}

/// Rows of groups under the headings of their panels; `cells` adds what comes after the name.
void add_groups(Node table, const Comparison& comparison, std::size_t columns,
                const std::function<void(Node row, const ComparedGroup& group, std::size_t index)>& cells) {
  std::size_t index = 0;
  for (const ComparedPanel& panel : comparison.panels) {
    Node rows = open(table, "tbody", panel.title.empty() ? nullptr : "panel");
    if (!panel.title.empty()) {
      Node heading = add(open(rows, "tr"), "th", panel.title, "panel");
      set(heading, "colspan", fmt::to_string(columns + 1));
      set(heading, "scope", "rowgroup");
    }
    for (const ComparedGroup& group : panel.groups) {
      Node row = open(rows, "tr");
      add_row_name(row, group.title);
      cells(row, group, index++);
    }
  }
}

/// The last accuracies, a row for each panel, a column for what is called the same in all.
void add_matrix(Node body, const Comparison& comparison) {
  std::vector<const ComparedGroup*> labels;
  for (const ComparedGroup* group : groups_of(comparison))
    if (std::ranges::find(labels, group->label, &ComparedGroup::label) == labels.end())
      labels.push_back(group);
  add(body, "p", "Test accuracy in the last test (%), the highest of each row in bold:", "note");
  Node table = add_table(body, "Last accuracies");
  Node head = open(open(table, "thead"), "tr");
  add_heading(head, "", "", false);
  for (const ComparedGroup* group : labels) add_heading(head, group->title, "", true);
  Node rows = open(table, "tbody");
  for (const ComparedPanel& panel : comparison.panels) {
    Node row = open(rows, "tr");
    add_row_name(row, panel.title);
    std::vector<Node> cells;
    std::vector<double> values;
    for (const ComparedGroup* label : labels) {
      const auto group = std::ranges::find(panel.groups, label->label, &ComparedGroup::label);
      std::vector<std::optional<double>> last;
      bool finished = true;
      if (group != panel.groups.end())
        for (const ComparedRun& run : group->runs)
          if (!run.tests.empty() && run.tests.back().accuracy) {
            last.emplace_back(100 * *run.tests.back().accuracy);
            finished = finished && run.finished;
          }
      cells.push_back(add(row, "td", mean_text(last, 2, "–") + (finished ? "" : " so far"), "number"));
      double sum = 0;
      for (const auto& value : last) sum += *value;
      values.push_back(last.empty() ? -1 : sum / static_cast<double>(last.size()));
    }
    const auto highest = std::ranges::max_element(values) - values.begin();
    if (values[static_cast<std::size_t>(highest)] >= 0)
      cells[static_cast<std::size_t>(highest)].attribute("class") = "number highest";
  }
}

void add_summary(Node body, const Comparison& comparison) {
  add(body, "h2", "In short");
  Node list = open(body, "ul");
  for (const std::string& sentence : findings(comparison)) add(list, "li", sentence);
  if (findings(comparison).empty()) add(list, "li", "There is nothing to compare yet.");
  if (comparison.panels.size() > 1 && has_accuracy(comparison)) add_matrix(body, comparison);
}

void add_settings(Node body, const Comparison& comparison) {
  add(body, "h2", "What differs between them");
  if (comparison.differing.empty()) {
    add(body, "p",
        runs_of(comparison).size() == 1 ? "There is only one run."
                                        : "Nothing but the seeds: all settings are the same.");
  } else {
    add(body, "p",
        "Only these settings are not the same in all runs. Whatever the curves below show has its cause "
        "here, or "
        "is luck.");
    Node table = add_table(body, "Settings that differ");
    Node head = open(open(table, "thead"), "tr");
    add_heading(head, "run", "", false);
    for (const ComparedSetting& setting : comparison.differing)
      add_heading(head, setting.name, setting.help, false);
    add_heading(head, has_seeds(comparison) ? "seeds" : "seed", "Of all random numbers.", false);
    add_groups(table, comparison, comparison.differing.size() + 1,
               [](Node row, const ComparedGroup& group, std::size_t) {
                 for (const std::string& value : group.settings) add(row, "td", value.empty() ? "–" : value);
                 add(row, "td", seeds_of(group));
               });
    Node words = open(body, "dl", "note");
    for (const ComparedSetting& setting : comparison.differing) {
      add(words, "dt", setting.name);
      add(words, "dd", setting.help);
    }
  }
  Node details = open(body, "details");
  add(details, "summary", fmt::format("The {} settings that all share", comparison.common.size()));
  Node table = add_table(details, "Settings that all share");
  Node rows = open(table, "tbody");
  for (const ComparedSetting& setting : comparison.common) {
    Node row = open(rows, "tr");
    add_row_name(row, setting.name);
    add(row, "td", setting.value.empty() ? "–" : setting.value);
    add(row, "td", setting.help, "note");
  }
}

// Curves

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
  add_charts(
      body, comparison, accuracy, bits,
      "Who learns most from as much traffic? What a worker that votes in every round has sent and received "
      "so far is from left to right. On slow links this is what costs time.");
  add_charts(
      body, comparison, loss, rounds,
      "Lower is better. The loss also tells how sure the model is, so it may rise while the accuracy stays.");
  add_charts(body, comparison, loss, bits, "The same over the traffic.");
  add_numbers(body, comparison, accuracy);
  add_numbers(body, comparison, loss);
}

void add_results(Node body, const Comparison& comparison) {
  add(body, "h2", "Results");
  add(body, "p",
      std::string(
          "How good each became, and what it took. Rounds and megabytes to an accuracy are those of the "
          "first test that reached it, so they are as fine as the tests are frequent.") +
          (has_seeds(comparison) ? " With several seeds: the mean, and from the lowest to the highest."
                                 : ""));
  const std::vector<ComparedColumn> columns = result_columns(comparison);
  Node table = add_table(body, "Results");
  Node head = open(open(table, "thead"), "tr");
  add_heading(head, "run", "", false);
  for (const ComparedColumn& column : columns) add_heading(head, column.heading, column.help, true);
  add_groups(table, comparison, columns.size(), [&](Node row, const ComparedGroup&, std::size_t index) {
    for (const ComparedColumn& column : columns) add(row, "td", column.cells[index], "number");
  });
}

void add_workers(Node body, const Comparison& comparison) {
  add(body, "h2", "Whom the vote trusts");
  add(body, "p", "What the vote has learnt of each worker, by nothing but its ballots.");
  Node words = open(body, "dl");
  for (const auto& [word, meaning] : kAboutWorkers) {
    add(words, "dt", word);
    add(words, "dd", meaning);
  }
  bool is_open = false;
  for (const ComparedPanel& panel : comparison.panels)
    for (const ComparedGroup& group : panel.groups)
      for (const ComparedRun& run : group.runs) {
        Node details = open(body, "details");
        add(details, "summary", with_panel(panel, fmt::format("{}, seed {}", group.title, run.seed)));
        if (!run.workers_note.empty()) add(details, "p", run.workers_note, "note");
        if (run.workers.empty()) continue;
        if (!is_open && run.workers[0].weight) {  // the first that has learnt something
          set(details, "open", "open");
          is_open = true;
        }
        Node table = add_table(details, "Workers");
        Node head = open(open(table, "thead"), "tr");
        add_heading(head, "worker", "Its number, and with a server its name.", false);
        add_heading(head, "batch", "Samples that it looks at in a round, the mean.", true);
        add_heading(head, "rounds", "In which it voted.", true);
        add_heading(head, "p", "Its error rate.", true);
        add_heading(head, "weight", "ln((1 - p)/p), the mean over the parameters.", true);
        add_heading(head, "say", "Its share of all weights.", false);
        add_heading(head, "mark", "", false);
        Node rows = open(table, "tbody");
        for (const ComparedWorker& worker : run.workers) {
          Node row = open(rows, "tr");
          add_row_name(row, worker.name);
          add(row, "td", fmt::format("{:.6g}", worker.batch), "number");
          add(row, "td", fmt::to_string(worker.rounds), "number");
          add(row, "td", worker.error_rate ? fmt::format("{:.3f}", *worker.error_rate) : "–", "number");
          add(row, "td", worker.weight ? fmt::format("{:.3f}", *worker.weight) : "–", "number");
          Node say = add(row, "td", fmt::format("{:.1f} %", 100 * worker.say));
          set(add(say, "span", "", "bar"), "style", fmt::format("width:{:.2f}rem", 10 * worker.say));
          add(row, "td", worker.mark, worker.mark == "liar?" ? "warn" : nullptr);
        }
      }
}

void add_repeating(Node body, const Comparison& comparison) {
  add(body, "h2", "To check and to repeat them");
  add(body, "p", kAboutRepeating);
  for (const ComparedPanel& panel : comparison.panels)
    for (const ComparedGroup& group : panel.groups)
      for (const ComparedRun& run : group.runs) {
        Node part = open(body, "div", "run");
        add(part, "h3", with_panel(panel, fmt::format("{}, seed {}", group.title, run.seed)));
        Node words = open(part, "dl", "note");
        const auto word = [&words](const char* name, const std::string& text, const char* classes) {
          add(words, "dt", name);
          add(words, "dd", text.empty() ? "not known yet" : text, classes);
        };
        word("folder", run.folder, nullptr);
        word("state", state_of(run), run.finished ? nullptr : "warn");
        word("model SHA-256", run.model_sha256, "hash");
        if (!run.best_sha256.empty() && run.best_sha256 != run.model_sha256)
          word("best SHA-256", run.best_sha256, "hash");
        add(part, "pre", run.command);
        if (!run.command_note.empty()) add(part, "p", run.command_note, "note");
        Node details = open(part, "details");
        add(details, "summary", "All its settings (config.toml)");
        add(details, "pre", run.settings);
      }
}

/// Boxes of the legend that are off hide their lines.
std::string hiding(const Comparison& comparison) {
  std::set<unsigned> styles;
  for (const ComparedGroup* group : groups_of(comparison)) styles.insert(group->style % kLineStyles);
  std::string css = "body:has(#show-thin:not(:checked)) figure .thin { display: none }\n";
  for (const unsigned style : styles)
    css += fmt::format("body:has(#show{0}:not(:checked)) figure .s{0} {{ display: none }}\n", style);
  return css;
}

}  // namespace

std::string comparison_html(const Comparison& comparison) {
  const std::size_t runs = runs_of(comparison).size();
  const std::string title = fmt::format("Comparison of {} run{}", runs, runs == 1 ? "" : "s");
  pugi::xml_document document;
  document.append_child(pugi::node_doctype).set_value("html");
  Node html = open(document, "html");
  set(html, "lang", "en");
  Node head = open(html, "head");
  set(open(head, "meta"), "charset", "utf-8");
  Node policy = open(head, "meta");
  set(policy, "http-equiv", "Content-Security-Policy");
  set(policy, "content", "default-src 'none'; style-src 'unsafe-inline'");
  Node viewport = open(head, "meta");
  set(viewport, "name", "viewport");
  set(viewport, "content", "width=device-width, initial-scale=1");
  add(head, "title", title + " - signvote");
  add(head, "style", kComparisonStyle + hiding(comparison));
  Node body = open(html, "body");
  Node page = open(body, "main");
  add(page, "h1", title);
  add(page, "p",
      "Models that were trained by votes over one bit per parameter, with signvote: how good they became, "
      "how "
      "quickly, for how much traffic, and why.",
      "lead");
  add_summary(page, comparison);
  explain(page);
  add_settings(page, comparison);
  add_curves(page, comparison);
  add_results(page, comparison);
  add_workers(page, comparison);
  add_repeating(page, comparison);
  add(page, "p", fmt::format("Made by signvote {} (signvote report).", SIGNVOTE_VERSION), "note");
  std::ostringstream text;
  document.save(text, "", pugi::format_raw | pugi::format_no_declaration, pugi::encoding_utf8);
  return text.str() + "\n";
}

}  // namespace signvote
