#include "run/figure1.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "base/files.h"
#include "engine/checkpoint.h"
#include "report/figure.h"
#include "run/record.h"
#include "run/schedule.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Cell {
  int mode;
  TrainConfig config;

  fs::path folder() const { return config.out; }
  bool exists() const { return fs::exists(folder() / "config.toml"); }
  bool finished() const {
    const json summary = read_summary(folder());
    return !summary.is_null() && summary.value("rounds", std::uint64_t{0}) == config.rounds;
  }
  std::uint64_t rounds_done() const {
    if (finished()) return config.rounds;
    return checkpoint_rounds(folder());
  }
};

Cell make_cell(const Figure1Options& options, int mode, const char* method, unsigned seed) {
  Cell cell{mode, options.base};
  cell.config.method = method;
  cell.config.seed = seed;
  cell.config.workers.reset();
  cell.config.batches.clear();
  cell.config.batch_mode = mode;
  cell.config.out = (options.out / "cells" / fmt::format("mode{}-{}-seed{}", mode, method, seed)).string();
  resolve(cell.config);
  return cell;
}

/// Throws ConfigError if an existing cell has other settings. Only other rounds can be asked of it.
void check_same(const Cell& cell) {
  const TrainConfig there = load_run(cell.folder());
  for (const TrainOption& option : train_options())
    if ((option.fixes_result || option.name == "eval_every") && option.get(there) != option.get(cell.config))
      throw ConfigError(fmt::format("'{}' was run with {} = {}, not {}; choose another --out",
                                    cell.folder().string(), option.name, option.get(there),
                                    option.get(cell.config)));
  check_rounds(there, cell.config, cell.rounds_done());
}

std::string panel_title(int mode) {
  std::string batches = batches_of_mode(mode);
  for (std::size_t at = 0; (at = batches.find_first_of("x,", at)) != std::string::npos;) {
    const std::string spaced = batches[at] == 'x' ? " x " : ", ";
    batches.replace(at, 1, spaced);
    at += spaced.size();
  }
  return fmt::format("Batch mode {}: {}", mode, batches);
}

Curve read_curve(const std::string& method, const std::vector<const Cell*>& cells) {
  std::map<std::uint64_t, std::vector<double>> accuracies;
  for (const Cell* cell : cells) {
    std::istringstream rows(read_text_file(cell->folder() / "metrics.jsonl"));
    for (std::string row; std::getline(rows, row);) {
      const json parsed = json::parse(row);
      accuracies[parsed.at("round")].push_back(parsed.at("test_accuracy"));
    }
  }
  Curve curve{method, {}};
  for (const auto& [round, values] : accuracies) {
    if (values.size() != cells.size()) continue;
    const auto [low, high] = std::ranges::minmax(values);
    curve.points.push_back(
        {round, std::reduce(values.begin(), values.end()) / static_cast<double>(values.size()), low, high});
  }
  return curve;
}

/// Runs an `it` cell and its `mv` twin to their ends. Until the initial phase is over the two are the same
/// run, so it is run once.
bool run_pair(const Cell& it, const Cell& mv, const Dataset& dataset,
              const std::function<TrainHooks(const Cell&)>& hooks) {
  const std::uint64_t common = std::min<std::uint64_t>(*it.config.initial_rounds, it.config.rounds);
  if (!it.exists()) create_run(it.config);
  if (!it.finished() && it.rounds_done() < common) {
    TrainHooks until_fork = hooks(it);
    until_fork.pause_after = common;
    if (train(it.config, dataset, until_fork, local_engine(it.config)).rounds < common) return false;
  }
  if (!mv.exists()) {
    if (it.rounds_done() == common)
      fork_run(it.folder(), mv.config);
    else
      create_run(mv.config);
  }
  for (const Cell* cell : {&it, &mv})
    if (!cell->finished() && !train(cell->config, dataset, hooks(*cell), local_engine(cell->config)).finished)
      return false;
  return true;
}

}  // namespace

bool reproduce_figure1(const Figure1Options& options, const Dataset& dataset, const TrainHooks& hooks) {
  std::vector<Cell> cells;  // in pairs: an `it` cell, then its `mv` twin
  for (unsigned seed = 0; seed < options.seeds; ++seed)
    for (const int mode : options.batch_modes)
      for (const char* method : {"it", "mv"}) cells.push_back(make_cell(options, mode, method, seed));

  // All cells are checked before any is run, because a run may take hours.
  for (const Cell& cell : cells) {
    if (cell.exists()) check_same(cell);
    check_batches(cell.config, dataset);
  }

  // Progress is counted over all cells. The rounds that twins share count for the `it` cell.
  const std::uint32_t initial_rounds = *cells.front().config.initial_rounds;
  const std::uint64_t common = std::min<std::uint64_t>(initial_rounds, options.base.rounds);
  const auto own_rounds = [common](const Cell& cell, std::uint64_t rounds) {
    return cell.config.method == "it" ? rounds : std::max(rounds, common) - common;
  };
  std::map<std::string, std::uint64_t> done;
  for (const Cell& cell : cells) done[cell.config.out] = own_rounds(cell, cell.rounds_done());
  const auto total_done = [&done] {
    return std::accumulate(done.begin(), done.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const auto& cell) { return sum + cell.second; });
  };
  const std::uint64_t total = cells.size() / 2 * (2 * options.base.rounds - common);

  const auto cell_hooks = [&](const Cell& cell) {
    TrainHooks result;
    result.warn = hooks.warn;
    result.stop = hooks.stop;
    result.progress = [&, out = cell.config.out](ProgressState state) {
      done[out] = own_rounds(cell, state.done);
      state.label = fmt::format("mode {} {} seed {}", cell.mode, cell.config.method, cell.config.seed);
      state.done = total_done();
      state.total = total;
      if (hooks.progress) hooks.progress(state);
    };
    return result;
  };
  for (std::size_t i = 0; i < cells.size(); i += 2)
    if (!run_pair(cells[i], cells[i + 1], dataset, cell_hooks)) return false;

  Figure figure;
  figure.title =
      fmt::format("{} {}: test accuracy, {} rounds, {} step {}", options.base.dataset, options.base.model,
                  options.base.rounds, options.base.step_schedule, options.base.step);
  figure.seeds = options.seeds;
  nlohmann::ordered_json modes = json::array();
  double seconds = 0;
  for (const int mode : options.batch_modes) {
    Panel panel{panel_title(mode), mode, {}};
    nlohmann::ordered_json row = {{"batch_mode", mode}, {"batches", batches_of_mode(mode)}};
    std::map<std::string, double> means;
    for (const char* method : {"it", "mv"}) {
      std::vector<const Cell*> seeds;
      std::vector<double> accuracies;
      for (const Cell& cell : cells) {
        if (cell.mode != mode || cell.config.method != method) continue;
        seeds.push_back(&cell);
        const json summary = read_summary(cell.folder());
        accuracies.push_back(summary.at("test_accuracy"));
        seconds += summary.at("seconds").get<double>();
      }
      panel.curves.push_back(read_curve(method, seeds));
      means[method] =
          std::reduce(accuracies.begin(), accuracies.end()) / static_cast<double>(accuracies.size());
      row[method] = {{"mean", means[method]}, {"accuracies", accuracies}};
    }
    row["lead"] = means["it"] - means["mv"];
    modes.push_back(row);
    figure.panels.push_back(std::move(panel));
  }
  draw_figure(figure, options.out, "figure1");
  const nlohmann::ordered_json summary = {{"dataset", options.base.dataset},
                                          {"model", options.base.model},
                                          {"partition", options.base.partition},
                                          {"rounds", options.base.rounds},
                                          {"step", options.base.step},
                                          {"step_schedule", options.base.step_schedule},
                                          {"warmup_rounds", options.base.warmup_rounds},
                                          {"weight_decay", options.base.weight_decay},
                                          {"initial_rounds", initial_rounds},
                                          {"seeds", options.seeds},
                                          {"modes", modes},
                                          {"seconds", seconds}};
  write_file_atomically(options.out / "summary.json", summary.dump(2) + "\n");
  return true;
}

std::string format_figure1(const json& summary) {
  std::string text = fmt::format("{:<6}{:<14}{:>12}{:>14}{:>16}\n", "mode", "batches", "signSGD-MV",
                                 "IT-signSGD", "lead, points");
  for (const auto& row : summary.at("modes"))
    text += fmt::format("{:<6}{:<14}{:>10.2f} %{:>12.2f} %{:>+16.2f}\n", row.at("batch_mode").get<int>(),
                        row.at("batches").get<std::string>(), 100 * row.at("mv").at("mean").get<double>(),
                        100 * row.at("it").at("mean").get<double>(), 100 * row.at("lead").get<double>());
  return text;
}

}  // namespace signvote
