#include "report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <numeric>

#include "base/text.h"

namespace signvote {
namespace {

/// Of the last test of each run.
std::vector<std::optional<double>> last_accuracies(const ComparedGroup& group) {
  std::vector<std::optional<double>> values;
  for (const ComparedRun& run : group.runs)
    values.push_back(run.tests.empty() ? std::nullopt : run.tests.back().accuracy);
  return values;
}

std::optional<double> mean(const std::vector<std::optional<double>>& values) {
  double sum = 0;
  std::size_t count = 0;
  for (const auto& value : values)
    if (value) {
      sum += *value;
      ++count;
    }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

bool is_finished(const ComparedGroup& group) {
  return std::ranges::all_of(group.runs, &ComparedRun::finished);
}

/// The mean of the rounds to `accuracy`; none unless every seed gets there.
std::optional<double> rounds_to(const ComparedGroup& group, double accuracy) {
  std::vector<std::optional<double>> rounds;
  for (const ComparedRun& run : group.runs) {
    const ComparedTest* test = first_at(run, accuracy);
    if (test == nullptr) return std::nullopt;
    rounds.emplace_back(static_cast<double>(test->round));
  }
  return mean(rounds);
}

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

/// Who ends highest in a panel, and who is there first.
void add_findings(const ComparedPanel& panel, std::vector<std::string>& found) {
  std::vector<const ComparedGroup*> groups;
  for (const ComparedGroup& group : panel.groups)
    if (is_finished(group) && mean(last_accuracies(group))) groups.push_back(&group);
  if (groups.size() < 2) return;
  const auto last = [](const ComparedGroup* group) { return *mean(last_accuracies(*group)); };
  std::ranges::stable_sort(groups, std::greater(), last);
  const double lead = 100 * (last(groups[0]) - last(groups[1]));
  std::string where = panel.title.empty() ? "" : panel.title + ": ";
  if (groups.size() < panel.groups.size()) where += "of those that have finished: ";
  const std::string rest = lead < 0.005 ? fmt::format("as {} has", groups[1]->title)
                                        : fmt::format("{:.2f} points more than {}", lead, groups[1]->title);
  std::string text = fmt::format("{}highest at the end is {}, with an accuracy of {}, {}.", where,
                                 groups[0]->title, percent(last(groups[0])), rest);
  if (panel.title.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  for (auto target = kTargets.rbegin(); target != kTargets.rend(); ++target) {
    std::vector<std::pair<double, std::string>> there;
    std::vector<std::string> never;
    for (const ComparedGroup* group : groups)
      if (const auto rounds = rounds_to(*group, *target))
        there.emplace_back(*rounds, group->title);
      else
        never.push_back(group->title);
    if (there.empty()) continue;
    std::ranges::stable_sort(there, {}, [](const auto& entry) { return entry.first; });
    text += fmt::format(" {:.0f} % is reached", 100 * *target);
    std::vector<std::string> parts;
    for (const auto& [rounds, title] : there)
      parts.push_back(fmt::format("{}{:.0f} rounds by {}", parts.empty() ? "after " : "", rounds, title));
    text += ' ';
    text += joined(parts);
    if (!never.empty())
      text += fmt::format("; not{} by {}", groups.front()->runs.size() > 1 ? " with every seed" : "",
                          joined(never));
    text += ".";
    break;
  }
  found.push_back(text);
}

ComparedColumn column(const Comparison& comparison, std::string heading, std::string help,
                      const std::function<std::string(const ComparedGroup&)>& cell) {
  ComparedColumn result{std::move(heading), std::move(help), {}};
  for (const ComparedGroup* group : groups_of(comparison)) result.cells.push_back(cell(*group));
  return result;
}

/// The mean over the runs of a group.
std::string of_runs(const ComparedGroup& group, int digits, const std::string& nothing,
                    const std::function<std::optional<double>(const ComparedRun&)>& value) {
  std::vector<std::optional<double>> values;
  for (const ComparedRun& run : group.runs) values.push_back(value(run));
  return mean_text(values, digits, nothing);
}

void add_accuracies(const Comparison& comparison, std::vector<ComparedColumn>& columns) {
  columns.push_back(column(comparison, "last accuracy (%)",
                           "In the last test: the share of test samples that the model gets right.",
                           [](const ComparedGroup& group) {
                             return of_runs(group, 2, "–",
                                            [](const ComparedRun& run) -> std::optional<double> {
                                              if (run.tests.empty() || !run.tests.back().accuracy)
                                                return std::nullopt;
                                              return 100 * *run.tests.back().accuracy;
                                            });
                           }));
  columns.push_back(column(comparison, "best accuracy (%)", "The highest of all tests, which best.pt is of.",
                           [](const ComparedGroup& group) {
                             return of_runs(group, 2, "–",
                                            [](const ComparedRun& run) -> std::optional<double> {
                                              const ComparedTest* best = best_test(run);
                                              if (best == nullptr || !best->accuracy) return std::nullopt;
                                              return 100 * *best->accuracy;
                                            });
                           }));
  for (const double target : kTargets) {
    const auto nothing = [](const ComparedGroup& group) { return is_finished(group) ? "never" : "not yet"; };
    columns.push_back(column(
        comparison, fmt::format("rounds to {:.0f} %", 100 * target),
        "The round of the first test at so much or more.", [&](const ComparedGroup& group) {
          return of_runs(group, 0, nothing(group), [target](const ComparedRun& run) -> std::optional<double> {
            const ComparedTest* test = first_at(run, target);
            if (test == nullptr) return std::nullopt;
            return static_cast<double>(test->round);
          });
        }));
    columns.push_back(column(
        comparison, fmt::format("MB to {:.0f} %", 100 * target),
        "What a worker that always votes has sent and received until then.", [&](const ComparedGroup& group) {
          return of_runs(group, 1, nothing(group), [target](const ComparedRun& run) -> std::optional<double> {
            const ComparedTest* test = first_at(run, target);
            return test == nullptr ? std::nullopt : megabytes(run, test->bits);
          });
        }));
  }
}

}  // namespace

const ComparedTest* first_at(const ComparedRun& run, double accuracy) {
  const auto found = std::ranges::find_if(run.tests, [accuracy](const ComparedTest& test) {
    return test.accuracy && *test.accuracy >= accuracy;
  });
  return found == run.tests.end() ? nullptr : &*found;
}

const ComparedTest* best_test(const ComparedRun& run) {
  const ComparedTest* best = nullptr;
  for (const ComparedTest& test : run.tests) {
    if (!test.accuracy && !test.loss) continue;
    const bool better = best == nullptr || (test.accuracy && best->accuracy
                                                ? *test.accuracy > *best->accuracy
                                                : test.loss && best->loss && *test.loss < *best->loss);
    if (better) best = &test;
  }
  return best;
}

std::vector<ComparedTest> mean_tests(const ComparedGroup& group) {
  std::map<std::uint64_t, std::vector<ComparedTest>> by_round;
  for (const ComparedRun& run : group.runs)
    for (const ComparedTest& test : run.tests) by_round[test.round].push_back(test);
  std::vector<ComparedTest> means;
  for (const auto& [round, tests] : by_round) {
    if (tests.size() != group.runs.size()) continue;
    const auto mean_of = [&tests =
                              tests](std::optional<double> ComparedTest::*field) -> std::optional<double> {
      std::vector<std::optional<double>> values;
      for (const ComparedTest& test : tests) values.push_back(test.*field);
      return std::ranges::all_of(values, [](const auto& value) { return value.has_value(); }) ? mean(values)
                                                                                              : std::nullopt;
    };
    double bits = 0;
    for (const ComparedTest& test : tests) bits += test.bits;
    means.push_back({round, mean_of(&ComparedTest::accuracy), mean_of(&ComparedTest::loss),
                     bits / static_cast<double>(tests.size())});
  }
  return means;
}

std::optional<double> megabytes(const ComparedRun& run, double bits) {
  if (!run.parameters) return std::nullopt;
  return bits * static_cast<double>(*run.parameters) / 8e6;
}

std::vector<const ComparedGroup*> groups_of(const Comparison& comparison) {
  std::vector<const ComparedGroup*> groups;
  for (const ComparedPanel& panel : comparison.panels)
    for (const ComparedGroup& group : panel.groups) groups.push_back(&group);
  return groups;
}

std::vector<const ComparedRun*> runs_of(const Comparison& comparison) {
  std::vector<const ComparedRun*> runs;
  for (const ComparedGroup* group : groups_of(comparison))
    for (const ComparedRun& run : group->runs) runs.push_back(&run);
  return runs;
}

bool has_accuracy(const Comparison& comparison) {
  return std::ranges::any_of(runs_of(comparison), [](const ComparedRun* run) {
    return std::ranges::any_of(run->tests,
                               [](const ComparedTest& test) { return test.accuracy.has_value(); });
  });
}

bool has_seeds(const Comparison& comparison) {
  return std::ranges::any_of(groups_of(comparison),
                             [](const ComparedGroup* group) { return group->runs.size() > 1; });
}

std::string state_of(const ComparedRun& run) {
  if (run.finished && run.rounds_done < run.rounds_asked)
    return fmt::format("ended after {}, because its tests did not become better (patience)",
                       counted(run.rounds_done, "round"));
  if (run.finished) return "finished";
  return fmt::format("not finished: {} of {} so far", run.rounds_done, counted(run.rounds_asked, "round"));
}

std::string mean_text(const std::vector<std::optional<double>>& values, int digits,
                      const std::string& nothing) {
  std::vector<double> known;
  for (const auto& value : values)
    if (value) known.push_back(*value);
  if (known.empty()) return nothing;
  std::string text = fmt::format(
      "{:.{}f}", std::reduce(known.begin(), known.end()) / static_cast<double>(known.size()), digits);
  if (known.size() < values.size())
    return text + fmt::format(" ({} of {} seeds)", known.size(), values.size());
  const auto [low, high] = std::ranges::minmax(known);
  const std::string range = fmt::format("{:.{}f} to {:.{}f}", low, digits, high, digits);
  return known.size() > 1 && low != high ? fmt::format("{} ({})", text, range) : text;
}

std::vector<ComparedColumn> result_columns(const Comparison& comparison) {
  std::vector<ComparedColumn> columns;
  columns.push_back(
      column(comparison, "rounds", "How many rounds of votes it has done.", [](const ComparedGroup& group) {
        std::string text = of_runs(group, 0, "–", [](const ComparedRun& run) {
          return std::optional(static_cast<double>(run.rounds_done));
        });
        return is_finished(group) ? text : text + ", not finished";
      }));
  if (has_accuracy(comparison)) add_accuracies(comparison, columns);
  columns.push_back(column(comparison, "last loss", "Of the last test: how far the model's answers are off.",
                           [](const ComparedGroup& group) {
                             return of_runs(group, 4, "–", [](const ComparedRun& run) {
                               return run.tests.empty() ? std::nullopt : run.tests.back().loss;
                             });
                           }));
  if (!has_accuracy(comparison))
    columns.push_back(column(comparison, "lowest loss", "The lowest of all tests, which best.pt is of.",
                             [](const ComparedGroup& group) {
                               return of_runs(group, 4, "–", [](const ComparedRun& run) {
                                 const ComparedTest* best = best_test(run);
                                 return best == nullptr ? std::nullopt : best->loss;
                               });
                             }));
  columns.push_back(column(
      comparison, "bits per parameter, up + down",
      "The mean length of a ballot and of a verdict. Plain SGD sends floats: 32 up and 32 down.",
      [](const ComparedGroup& group) {
        const auto up = [](const ComparedRun& run) { return run.bits_per_parameter_up; };
        const auto down = [](const ComparedRun& run) { return run.bits_per_parameter_down; };
        const auto both = std::pair(of_runs(group, 2, "–", up), of_runs(group, 2, "–", down));
        const auto without_range = [](const std::string& text) { return text.substr(0, text.find(' ')); };
        return without_range(both.first) + " + " + without_range(both.second);
      }));
  columns.push_back(column(comparison, "minutes", "On the machine that it ran on, tests and saves included.",
                           [](const ComparedGroup& group) {
                             return of_runs(group, 1, "–", [](const ComparedRun& run) {
                               return run.tests.empty() ? std::nullopt : std::optional(run.seconds / 60);
                             });
                           }));
  return columns;
}

std::vector<std::string> findings(const Comparison& comparison) {
  std::vector<std::string> found;
  for (const ComparedPanel& panel : comparison.panels) add_findings(panel, found);
  double most = 0;
  for (const ComparedRun* run : runs_of(comparison))
    if (run->bits_per_parameter_up && *run->bits_per_parameter_up < 32)
      most = std::max(most, *run->bits_per_parameter_up + *run->bits_per_parameter_down);
  if (most > 0)
    found.push_back(fmt::format(
        "With votes, a worker sends and receives at most {:.2f} bits for each parameter in a round, on "
        "average; with floats (32 bits each way) it would be {:.0f} times as much.",
        most, kFloatBits / most));
  std::size_t unfinished = 0;
  for (const ComparedRun* run : runs_of(comparison)) unfinished += run->finished ? 0 : 1;
  if (unfinished > 0)
    found.push_back(
        fmt::format("{} of the {} runs {} not finished: {} numbers are those so far, and not compared in "
                    "these sentences.",
                    unfinished, runs_of(comparison).size(), unfinished == 1 ? "is" : "are",
                    unfinished == 1 ? "its" : "their"));
  return found;
}

}  // namespace signvote
