#include "run/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/files.h"
#include "base/text.h"
#include "report/chart.h"
#include "report/markup.h"
#include "run/audit.h"
#include "run/config.h"
#include "run/inspect.h"
#include "run/run_files.h"
#include "run/table_plans.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMostWorkers = 100;  // that are shown of a run

/// A run that was found, before it is known what it is to be compared with.
struct FoundRun {
  fs::path folder;
  std::string panel;  // what cells of a row have in common; empty: a run that was named itself
  std::string label;  // of a cell: its method
  TrainConfig config;
  ComparedRun run;
};

/// A path without an end, like "runs/first/".
fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

double finite(const json& summary, const char* key) {
  const auto found = summary.find(key);
  if (found == summary.end()) return 0;
  if (!found->is_number() || !(found->get<double>() >= 0 && found->get<double>() < 1e18))
    throw DataError(fmt::format("the {} in its summary.json makes no sense", key));
  return found->get<double>();
}

std::vector<ComparedWorker> workers_of(const Insight& insight) {
  std::vector<ComparedWorker> workers;
  for (std::size_t m = 0; m < std::min(insight.workers.size(), kMostWorkers); ++m) {
    const WorkerInsight& worker = insight.workers[m];
    workers.push_back({worker.owner.empty() ? fmt::to_string(m) : fmt::format("{} {}", m, worker.owner),
                       worker.batch, worker.rounds, worker.error_rate, worker.weight, worker.say,
                       name_of(worker.mark)});
  }
  return workers;
}

/// What a run's tally has learnt. The layers of a network are not known without torch, so it is without them.
void read_workers(const TrainConfig& config, const fs::path& folder, ComparedRun& run) {
  if (!fs::exists(folder / "checkpoint.bin") && !fs::exists(folder / "journal")) {
    run.workers_note = "Nothing is saved of it yet, so this is not known.";
    return;
  }
  const SavedTally saved = load_tally(config, folder);
  const Insight insight = inspect(config, saved, {});
  run.parameters = saved.tally.size();
  run.rounds_done = std::max(run.rounds_done, insight.rounds);
  run.workers = workers_of(insight);
  run.workers_note = fmt::format("{}, after {}.", config.method_title(), counted(insight.rounds, "round"));
  if (!insight.learns)
    run.workers_note += " This method learns nothing of its workers.";
  else if (!insight.weighted)
    run.workers_note += fmt::format(" All ballots count the same so far: weights come into force after {}.",
                                    counted(*config.initial_rounds, "round"));
  if (config.tally_method() == Method::agree && insight.workers.size() < 3)
    run.workers_note += " Agreement cannot tell two workers apart: p and weight mean nothing.";
  if (insight.workers.size() > kMostWorkers)
    run.workers_note += fmt::format(" These are the first {} of {} workers; signvote inspect shows all.",
                                    kMostWorkers, insight.workers.size());
}

/// The settings that the program would take by itself for this method.
TrainConfig defaults_of(const TrainConfig& config) {
  TrainConfig defaults;
  defaults.method = config.method;
  resolve(defaults);
  defaults.method = TrainConfig().method;
  return defaults;
}

void write_command(const TrainConfig& config, const fs::path& folder, ComparedRun& run) {
  static const std::set<std::string> left_out = {"out",     "workers",           "batch_mode",       "engine",
                                                 "threads", "model_file_sha256", "parameters_sha256"};
  const TrainConfig defaults = defaults_of(config);
  const bool served = config.engine == "grpc";
  run.command = served ? "signvote server --listen HOST:PORT --state OTHER" : "signvote train --out OTHER";
  for (const TrainOption& option : train_options()) {
    std::string value = option.get(config);
    const bool is_copy = (option.name == "model" && config.has_own_model()) || option.name == "parameters";
    if (left_out.contains(option.name) || value.empty() || value == option.get(defaults)) continue;
    if (is_copy) value = (folder / value).string();
    run.command += fmt::format(" {} {}", flag(option.name), shell_word(value));
  }
  run.settings = write_config(config);
  if (served)
    run.command_note =
        "It was run by a server, with --cert, --key and --client-ca or --insecure, and by signvote worker "
        "on each machine. It ends with the same fingerprint if the same workers vote in the same rounds; "
        "what was voted is in its journal, which 'signvote journal DIR verify' decides again.";
  else if (config.engine == "mpi")
    run.command_note =
        "It was run on a cluster, by mpirun and --engine mpi. All engines give the same bytes, so one "
        "process repeats it.";
}

/// Throws whatever reading it throws.
void read_run(FoundRun& found) {
  const fs::path& folder = found.folder;
  found.config = fs::exists(folder / "journal") ? load_server_run(folder) : load_run(folder);
  const TrainConfig& config = found.config;
  ComparedRun& run = found.run;
  run.folder = folder.string();
  run.seed = config.seed;
  run.rounds_asked = config.rounds;
  const std::vector<MetricsRow> rows = read_metrics(folder);
  for (const MetricsRow& row : rows) {
    const double both = row.bits_per_parameter_up + row.bits_per_parameter_down;
    run.tests.push_back({row.round, row.test_accuracy, row.test_loss, static_cast<double>(row.round) * both});
    run.rounds_done = row.round;
    run.bits_per_parameter_up = row.bits_per_parameter_up;
    run.bits_per_parameter_down = row.bits_per_parameter_down;
    run.seconds = row.seconds;
    run.model_sha256 = row.model_sha256;
  }
  if (const ComparedTest* best = best_test(run))
    run.best_sha256 = std::ranges::find(rows, best->round, &MetricsRow::round)->model_sha256;
  read_workers(config, folder, run);
  if (const json summary = read_summary(folder); summary.is_object()) {
    const double rounds = finite(summary, "rounds");
    const bool whole = rounds == static_cast<double>(config.rounds);
    run.finished = whole || (config.patience > 0 && rounds == static_cast<double>(run.rounds_done));
    if (run.finished) run.samples_per_second = finite(summary, "samples_per_second");
  }
  write_command(config, folder, run);
}

/// "mode4-it-seed0" as the row, the method and the seed of a cell of signvote reproduce.
bool name_cell(const std::string& name, FoundRun& cell) {
  static const std::regex pattern("(.+)-([a-z]+)-seed[0-9]+");
  std::smatch parts;
  if (!std::regex_match(name, parts, pattern)) return false;
  cell.panel = parts[1];
  cell.label = parts[2];
  return true;
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (fs::exists(entry.path() / "config.toml")) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

/// All runs of a folder that was named.
std::vector<FoundRun> find_runs(const fs::path& named) {
  const fs::path folder = without_slash(named);
  std::vector<FoundRun> found;
  if (fs::exists(folder / "config.toml") || fs::exists(folder / "journal")) {
    found.push_back({folder, {}, {}, {}, {}});
  } else if (fs::is_directory(folder / "cells")) {
    for (const fs::path& path : folders_in(folder / "cells")) {
      FoundRun cell{path, {}, {}, {}, {}};
      if (!name_cell(path.filename().string(), cell)) cell.label = path.filename().string();
      found.push_back(std::move(cell));
    }
    if (found.empty())
      throw ConfigError(fmt::format("'{}' has no cell yet; wait until signvote reproduce has begun its first",
                                    folder.string()));
  } else if (!fs::is_directory(folder)) {
    throw ConfigError(
        fmt::format("'{}' is no folder; give a run's folder, a server's --state or the --out of "
                    "signvote reproduce",
                    folder.string()));
  } else {
    const std::vector<fs::path> below = folders_in(folder);
    throw ConfigError(fmt::format("'{}' holds no run: it has no config.toml; {}", folder.string(),
                                  below.empty()
                                      ? "give a run's folder, a server's --state or the --out of signvote "
                                        "reproduce"
                                      : fmt::format("give the runs in it, such as {}", below[0].string())));
  }
  for (FoundRun& run : found) {
    try {
      read_run(run);
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("cannot read the run in '{}': {}", run.folder.string(), error.what()));
    } catch (const DataError& error) {
      throw DataError(fmt::format("cannot read the run in '{}': {}", run.folder.string(), error.what()));
    }
  }
  return found;
}

/// "Mode 4: batches 14x4,904".
std::string panel_title(const FoundRun& cell) {
  for (int mode = 1; mode <= 4; ++mode)
    if (cell.panel == fmt::format("mode{}", mode) && cell.config.batches == batches_of_mode(mode))
      return fmt::format("Mode {} (batches {})", mode, cell.config.batches);
  return cell.panel;
}

/// Whether a setting says something about the result, other than the seed, which groups do not differ in.
bool is_compared(const TrainOption& option) {
  static const std::set<std::string> also = {"rounds", "eval_every", "patience", "engine"};
  static const std::set<std::string> not_these = {"seed", "workers",
                                                  "batch_mode"};  // batches tell the workers
  return !not_these.contains(option.name) && (option.fixes_result || also.contains(option.name));
}

std::string settings_text(const TrainConfig& config) {
  std::string text;
  for (const TrainOption& option : train_options())
    if (is_compared(option)) text += option.name + "=" + option.get(config) + "\n";
  return text;
}

/// What the folders of a group's runs have in common, without the seeds: "mnist-agree-seed0" and "-seed1" are
/// "mnist-agree".
std::string common_name(const std::vector<FoundRun>& all, const std::vector<std::size_t>& members) {
  std::string name = all[members[0]].folder.filename().string();
  if (members.size() == 1) return name;
  for (const std::size_t i : members) {
    const std::string other = all[i].folder.filename().string();
    name.resize(static_cast<std::size_t>(std::ranges::mismatch(name, other).in1 - name.begin()));
  }
  static const std::regex ending("[-_. ]*(seed)?[-_. ]*$");
  name = std::regex_replace(name, ending, "");
  return name.empty() ? all[members[0]].folder.filename().string() : name;
}

/// Baselines first, then the paper's method and ours, then what is only there to compare with.
std::size_t rank_of(const std::string& label) {
  static const std::vector<std::string> order = {"mv",         "it",     "shrink", "agree",
                                                 kOwnDefaults, "oracle", "solo",   "sgd"};
  return static_cast<std::size_t>(std::ranges::find(order, label) - order.begin());
}

/// The colours of docs' figures for the methods, else in order.
void choose_styles(Comparison& comparison) {
  static const std::map<std::string, unsigned> known = {{"it", 0},    {"mv", 1},        {"shrink", 2},
                                                        {"agree", 3}, {"solo", 4},      {"oracle", 5},
                                                        {"sgd", 6},   {kOwnDefaults, 7}};
  std::map<std::string, unsigned> chosen;
  unsigned next = 0;
  for (ComparedPanel& panel : comparison.panels)
    for (ComparedGroup& group : panel.groups) {
      if (const auto at = known.find(group.label); at != known.end()) {
        group.style = at->second;
        continue;
      }
      if (!chosen.contains(group.label)) chosen[group.label] = next++ % kLineStyles;
      group.style = chosen[group.label];
    }
}

void compare_settings(const std::vector<FoundRun>& all, const std::vector<std::vector<std::size_t>>& groups,
                      Comparison& comparison) {
  std::vector<ComparedGroup*> compared;
  for (ComparedPanel& panel : comparison.panels)
    for (ComparedGroup& group : panel.groups) compared.push_back(&group);
  for (const TrainOption& option : train_options()) {
    if (!is_compared(option)) continue;
    const std::string first = option.get(all[groups[0][0]].config);
    const bool same = std::ranges::all_of(
        groups, [&](const auto& group) { return option.get(all[group[0]].config) == first; });
    (same ? comparison.common : comparison.differing)
        .push_back({option.name, option.help, same ? first : ""});
    for (std::size_t g = 0; !same && g < groups.size(); ++g)
      compared[g]->settings.push_back(option.get(all[groups[g][0]].config));
  }
}

}  // namespace

Comparison compare_runs(const std::vector<fs::path>& folders) {
  std::vector<FoundRun> all;
  std::set<fs::path> seen;
  for (const fs::path& folder : folders)
    for (FoundRun& run : find_runs(folder))
      if (seen.insert(fs::canonical(run.folder)).second) all.push_back(std::move(run));

  // Panels in the order of their first run, and in each the groups likewise, methods in theirs.
  std::vector<std::string> panels;
  std::map<std::string, std::vector<std::vector<std::size_t>>> grouped;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string panel =
        all[i].panel.empty() ? "" : all[i].folder.parent_path().string() + "/" + all[i].panel;
    if (!grouped.contains(panel)) panels.push_back(panel);
    auto& groups = grouped[panel];
    const auto same = std::ranges::find_if(groups, [&](const auto& group) {
      const FoundRun& other = all[group[0]];
      return other.label == all[i].label && settings_text(other.config) == settings_text(all[i].config);
    });
    if (same == groups.end())
      groups.push_back({i});
    else
      same->push_back(i);
  }
  Comparison comparison;
  std::vector<std::vector<std::size_t>> in_order;
  for (const std::string& name : panels) {
    auto& groups = grouped[name];
    std::ranges::stable_sort(groups, {}, [&](const auto& group) { return rank_of(all[group[0]].label); });
    ComparedPanel panel{panels.size() == 1 ? ""
                        : name.empty()     ? "Single runs"
                                           : panel_title(all[groups[0][0]]),
                        {}};
    std::map<std::string, int> times;
    for (const auto& group : groups) ++times[common_name(all, group)];
    for (const auto& group : groups) {
      const FoundRun& first = all[group[0]];
      ComparedGroup compared;
      compared.label = first.label.empty() ? common_name(all, group) : first.label;
      if (first.label.empty() && times[compared.label] > 1) compared.label = first.folder.string();
      compared.title = first.panel.empty()           ? compared.label
                       : first.label == kOwnDefaults ? "signvote's defaults"
                       : first.label == first.config.method
                           ? fmt::format("{} ({})", first.config.method_title(), first.label)
                           : first.label;
      for (const std::size_t i : group) compared.runs.push_back(std::move(all[i].run));
      panel.groups.push_back(std::move(compared));
      in_order.push_back(group);
    }
    comparison.panels.push_back(std::move(panel));
  }
  choose_styles(comparison);
  compare_settings(all, in_order, comparison);
  return comparison;
}

}  // namespace signvote
