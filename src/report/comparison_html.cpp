// A comparison as one page: text, tables and charts, without scripts, so that what a run's names contain can
// do nothing. pugixml escapes all texts. The page is well-formed XML too.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <pugixml.hpp>
#include <sstream>

#include "base/text.h"
#include "report/comparison_formats.h"
#include "report/comparison_style.h"
#include "report/html.h"
#include "signvote/version.h"

namespace signvote {
namespace {

using namespace html;

std::string seeds_of(const ComparedGroup& group) {
  std::string text;
  for (const ComparedRun& run : group.runs) text += fmt::format("{}{}", text.empty() ? "" : ", ", run.seed);
  return text;
}

void explain(Node body) {
  add(body, "h2", "What these runs do");
  add(body, "p",
      "Several workers train one model together, each on data of its own, over slow links. Nobody sends "
      "its data, and nobody sends numbers: only signs, up or down, and a vote decides. This is one round:");
  Node flow = open(body, "ol", "flow");
  const auto step = [&flow](const char* name, const char* text) {
    Node item = open(flow, "li");
    add(item, "strong", name);
    add(item, "span", text);
  };
  step("1. Look",
       "Every worker takes some samples of its data, its batch, and works out for each parameter of the "
       "model whether it should become larger or smaller.");
  step("2. Ballot", "It sends only these signs: about one bit for each parameter, where a number takes 32.");
  step("3. Vote",
       "For each parameter by itself, the ballots are weighed and counted. The result is the verdict, a "
       "sign for each parameter.");
  step("4. Step",
       "Every worker moves every parameter by the same small step in the direction of the verdict.");
  Node words = open(body, "dl");
  const auto word = [&words](const char* name, const char* text) {
    add(words, "dt", name);
    add(words, "dd", text);
  };
  word("ballot", "What one worker says in one round: up, down, or nothing, for each parameter.");
  word("weight",
       "How much a worker's ballot counts. In a plain majority (mv, signSGD-MV) all count the same, so "
       "that many workers with small batches outvote the one that has seen more. The other methods learn "
       "how often each worker is wrong (its error rate p) and weigh it by ln((1 - p)/p): one that guesses "
       "counts nothing, one that is nearly always right counts a lot, and of one that lies the opposite is "
       "taken.");
  word("round", "One ballot of each worker, one verdict, one step.");
  word("accuracy", "The share of samples, never used for training, that the model gets right.");
  word("loss", "How far the model's answers are off; lower is better.");
  word("seed",
       "The number that all chance of a run comes from. Runs that differ in their seeds alone show how "
       "much is luck.");
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
        "here, or is luck.");
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
  Node details = open(body, "details");
  add(details, "summary", "What the columns mean");
  Node words = open(details, "dl", "note");
  for (const ComparedColumn& column : columns) {
    add(words, "dt", column.heading);
    add(words, "dd", column.help);
  }
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

}  // namespace

std::string comparison_html(const Comparison& comparison) {
  const std::string title = "Comparison of " + counted(runs_of(comparison).size(), "run");
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
  add(head, "style", kComparisonStyle + style_of_legend(comparison));
  Node body = open(html, "body");
  Node page = open(body, "main");
  add(page, "h1", title);
  add(page, "p",
      "Models that were trained by votes over one bit per parameter, with signvote: how good they became, "
      "how quickly, for how much traffic, and why.",
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
