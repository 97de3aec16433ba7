// Markdown and CSV of a comparison.
#include <fmt/format.h>

#include <iterator>

#include "base/text.h"
#include "report/comparison_formats.h"
#include "report/markup.h"

namespace signvote {
namespace {

using Rows = std::vector<std::vector<std::string>>;  // the first is the heading

std::string markdown_table(const Rows& rows) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += '|';
    for (const std::string& cell : rows[i]) text += ' ' + markdown_text(cell) + " |";
    text += '\n';
    if (i != 0) continue;
    text += '|';
    for (std::size_t column = 0; column < rows[i].size(); ++column) text += "---|";
    text += '\n';
  }
  return text;
}

/// A block that nothing inside it ends.
std::string code(const std::string& text) {
  std::string fence = "```";
  while (text.find(fence) != std::string::npos) fence += '`';
  return fmt::format("{0}\n{1}\n{0}\n", fence, readable(text));
}

std::string name_of(const ComparedPanel& panel, const ComparedGroup& group) {
  return panel.title.empty() ? group.title : panel.title + ", " + group.title;
}

std::string number_or_dash(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "–";
}

std::string or_nothing(const auto& value) { return value ? fmt::format("{}", *value) : ""; }

}  // namespace

std::string comparison_markdown(const Comparison& comparison) {
  std::string text = "# Comparison of " + counted(runs_of(comparison).size(), "run") + "\n\n";
  for (const std::string& sentence : findings(comparison)) text += "- " + markdown_text(sentence) + "\n";

  Rows differing = {{"run"}}, results = {{"run"}};
  for (const ComparedSetting& setting : comparison.differing) differing[0].push_back(setting.name);
  differing[0].emplace_back("seeds");
  const std::vector<ComparedColumn> columns = result_columns(comparison);
  for (const ComparedColumn& column : columns) results[0].push_back(column.heading);
  for (const ComparedPanel& panel : comparison.panels)
    for (const ComparedGroup& group : panel.groups) {
      std::vector<std::string> row = {name_of(panel, group)};
      row.insert(row.end(), group.settings.begin(), group.settings.end());
      std::string seeds;
      for (const ComparedRun& run : group.runs)
        seeds += fmt::format("{}{}", seeds.empty() ? "" : ", ", run.seed);
      row.push_back(seeds);
      differing.push_back(row);
      row = {name_of(panel, group)};
      for (const ComparedColumn& column : columns) row.push_back(column.cells[results.size() - 1]);
      results.push_back(row);
    }
  text += "\n## Settings that differ\n\n" + markdown_table(differing);
  text += "\n## Results\n\nWith several seeds: the mean, and the lowest and highest.\n\n" +
          markdown_table(results);

  text += "\n## Whom the vote trusts\n\n";
  for (const auto& [word, meaning] : kAboutWorkers)
    text += fmt::format("- *{}*: {}\n", word, markdown_text(meaning));
  for (const ComparedPanel& panel : comparison.panels)
    for (const ComparedGroup& group : panel.groups)
      for (const ComparedRun& run : group.runs) {
        text += fmt::format("\n### {}, seed {}\n\n{}\n\n", markdown_text(name_of(panel, group)), run.seed,
                            markdown_text(run.workers_note));
        Rows workers = {{"worker", "batch", "rounds", "p", "weight", "say", "mark"}};
        for (const ComparedWorker& worker : run.workers)
          workers.push_back({worker.name, fmt::format("{:.4g}", worker.batch), fmt::to_string(worker.rounds),
                             number_or_dash(worker.error_rate, 3), number_or_dash(worker.weight, 3),
                             fmt::format("{:.1f} %", 100 * worker.say), worker.mark});
        if (!run.workers.empty()) text += markdown_table(workers);
      }

  text += fmt::format("\n## To repeat them\n\n{}\n", markdown_text(kAboutRepeating));
  for (const ComparedRun* run : runs_of(comparison)) {
    text += fmt::format("\n### {}\n\n{}; model sha256 {}\n\n{}", markdown_text(run->folder), state_of(*run),
                        run->model_sha256.empty() ? "not known" : markdown_text(run->model_sha256),
                        code(run->command));
    if (!run->command_note.empty()) text += "\n" + markdown_text(run->command_note) + "\n";
  }
  return text;
}

std::string comparison_csv(const Comparison& comparison) {
  std::string text = "panel,run,folder,seed";
  for (const ComparedSetting& setting : comparison.differing) text += ',' + csv_field(setting.name);
  text +=
      ",finished,rounds,rounds_asked,test_accuracy,test_loss,best_round,best_test_accuracy,best_test_loss";
  for (const double target : kTargets)
    text += fmt::format(",rounds_to_{0:.0f},megabytes_to_{0:.0f}", 100 * target);
  text +=
      ",parameters,bits_per_parameter_up,bits_per_parameter_down,seconds,samples_per_second,model_sha256\n";
  const auto out = std::back_inserter(text);
  for (const ComparedPanel& panel : comparison.panels)
    for (const ComparedGroup& group : panel.groups)
      for (const ComparedRun& run : group.runs) {
        fmt::format_to(out, "{},{},{},{}", csv_field(panel.title), csv_field(group.label),
                       csv_field(run.folder), run.seed);
        for (const std::string& value : group.settings) text += ',' + csv_field(value);
        fmt::format_to(out, ",{},{},{}", run.finished ? "yes" : "no", run.rounds_done, run.rounds_asked);
        const ComparedTest none;
        const ComparedTest& last = run.tests.empty() ? none : run.tests.back();
        fmt::format_to(out, ",{},{}", or_nothing(last.accuracy), or_nothing(last.loss));
        const ComparedTest* best = best_test(run);
        fmt::format_to(out, ",{},{},{}", best == nullptr ? "" : fmt::to_string(best->round),
                       best == nullptr ? "" : or_nothing(best->accuracy),
                       best == nullptr ? "" : or_nothing(best->loss));
        for (const double target : kTargets) {
          const ComparedTest* test = first_at(run, target);
          fmt::format_to(out, ",{},{}", test == nullptr ? "" : fmt::to_string(test->round),
                         test == nullptr ? "" : or_nothing(megabytes(run, test->bits)));
        }
        fmt::format_to(out, ",{},{},{},{},{},{}\n", or_nothing(run.parameters),
                       or_nothing(run.bits_per_parameter_up), or_nothing(run.bits_per_parameter_down),
                       run.seconds, or_nothing(run.samples_per_second), csv_field(run.model_sha256));
      }
  return text;
}

}  // namespace signvote
