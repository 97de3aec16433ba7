#include "run/figure1.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/files.h"
#include "base/text.h"
#include "report/figure.h"
#include "run/cells.h"
#include "run/curves.h"
#include "run/run_files.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The paper's mode that has these batches.
std::optional<int> mode_of(const std::string& batches) {
  for (int mode = 1; mode <= 4; ++mode)
    if (batches == batches_of_mode(mode)) return mode;
  return std::nullopt;
}

std::string panel_name(const std::string& batches) {
  const std::optional<int> mode = mode_of(batches);
  return mode ? std::to_string(*mode) : batches;
}

std::string panel_title(const std::string& batches) {
  std::string spaced;
  for (const char c : batches) spaced += c == 'x' ? " x " : c == ',' ? ", " : std::string(1, c);
  const std::optional<int> mode = mode_of(batches);
  return mode ? fmt::format("Batch mode {}: {}", *mode, spaced) : "Batches " + spaced;
}

Cell make_cell(const Figure1Options& options, const std::string& batches, const NamedSettings& method,
               std::uint64_t seed) {
  const std::string row = mode_of(batches) ? "mode " + panel_name(batches) : batches;
  Cell cell{row, method.name, options.base};
  TrainConfig& config = cell.config;
  parse_config(method.toml, "method " + method.name, config);
  config.seed = seed;
  config.workers.reset();
  config.batch_mode.reset();
  config.batches = batches;
  config.out =
      (options.out / "cells" / as_file_name(fmt::format("{}-{}-seed{}", row, method.name, seed))).string();
  resolve(config);
  return cell;
}

}  // namespace

bool reproduce_figure1(const Figure1Options& options, const Dataset& dataset, const TrainHooks& hooks) {
  std::vector<NamedSettings> it_first = options.methods;  // so that mv can begin where its initial phase ends
  std::ranges::stable_partition(it_first, [](const NamedSettings& method) { return method.name == "it"; });
  std::vector<Cell> cells;
  for (unsigned i = 0; i < options.seeds; ++i)
    for (const std::string& batches : options.panels)
      for (const NamedSettings& method : it_first)
        cells.push_back(make_cell(options, batches, method, options.base.seed + i));
  check_cells(cells, dataset);
  if (!run_cells(cells, dataset, hooks)) return false;

  const TrainConfig& first = cells.front().config;
  Figure figure;
  figure.title = fmt::format("{} {}: test accuracy, {}, {} step {}", first.dataset, first.model,
                             counted(first.rounds, "round"), options.base.step_schedule, *options.base.step);
  for (const Cell& cell : cells)
    if (cell.method == kOwnDefaults && cell.config.seed == first.seed && cell.config.batches == first.batches)
      figure.remark =
          fmt::format("signvote's defaults: {} from {}", cell.config.step_schedule, *cell.config.step);
  figure.seeds = options.seeds;
  figure.baseline = options.methods.front().name;
  std::vector<std::string> methods;
  for (const NamedSettings& method : options.methods) methods.push_back(method.name);
  nlohmann::ordered_json rows = json::array();
  double seconds = 0;
  for (const Cell& cell : cells) {
    seconds += read_summary(cell.folder()).at("seconds").get<double>();
    if (cell.method == "it") figure.weights_begin = *cell.config.initial_rounds;
  }
  for (const std::string& batches : options.panels) {
    Panel panel{panel_title(batches), panel_name(batches), {}, {}};
    nlohmann::ordered_json row = {{"batches", batches}};
    if (const auto mode = mode_of(batches)) row["batch_mode"] = *mode;
    std::vector<const Cell*> baseline;
    for (const std::string& method : methods) {
      std::vector<const Cell*> seeds;
      for (const Cell& cell : cells)
        if (cell.config.batches == batches && cell.method == method) seeds.push_back(&cell);
      if (baseline.empty())
        baseline = seeds;
      else
        panel.leads.push_back(lead_of(method, seeds, baseline));
      panel.curves.push_back(curve_of(method, seeds));
      row[method] = {{"mean", panel.curves.back().points.back().mean},
                     {"accuracies", last_accuracies(seeds)}};
      if (method != figure.baseline) row[method]["lead"] = panel.leads.back().points.back().mean;
      if (method == "it" && figure.baseline == "mv") row["lead"] = row[method]["lead"];  // the paper's claim
    }
    rows.push_back(row);
    figure.panels.push_back(std::move(panel));
  }
  draw_figure(figure, options.out, "figure1");
  const nlohmann::ordered_json summary = {{"dataset", first.dataset},
                                          {"model", first.model},
                                          {"partition", first.partition},
                                          {"rounds", first.rounds},
                                          {"step", *options.base.step},
                                          {"step_schedule", options.base.step_schedule},
                                          {"warmup_rounds", options.base.warmup_rounds},
                                          {"weight_decay", options.base.weight_decay},
                                          {"seeds", options.seeds},
                                          {"first_seed", options.base.seed},
                                          {"methods", methods},
                                          {"modes", rows},
                                          {"seconds", seconds}};
  write_file_atomically(options.out / "summary.json", summary.dump(2) + "\n");
  return true;
}

std::string format_figure1(const json& summary) {
  const auto methods = summary.at("methods").get<std::vector<std::string>>();
  std::string text = fmt::format("{:<6}{:<14}", "mode", "batches");
  for (const std::string& method : methods) text += fmt::format("{:>12}", method);
  for (std::size_t i = 1; i < methods.size(); ++i)
    text += fmt::format("{:>18}", methods[i] + " - " + methods[0]);
  text += '\n';
  for (const auto& row : summary.at("modes")) {
    const std::string mode = row.contains("batch_mode") ? row.at("batch_mode").dump() : "-";
    text += fmt::format("{:<6}{:<14}", mode, row.at("batches").get<std::string>());
    for (const std::string& method : methods)
      text += fmt::format("{:>10.2f} %", 100 * row.at(method).at("mean").get<double>());
    for (std::size_t i = 1; i < methods.size(); ++i)
      text += fmt::format("{:>+11.2f} points", 100 * row.at(methods[i]).at("lead").get<double>());
    text += '\n';
  }
  return text;
}

}  // namespace signvote
