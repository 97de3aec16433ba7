#include "run/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/compute/commands.h"
#include "report/heat_map.h"
#include "run/bare_parameters.h"
#include "run/network.h"

namespace signvote::cli {
namespace {

/// The names and sizes of the model's layers. Needs the run's data set, from which the network takes its
/// shape. Parameters without a network have the layers that their file names.
Layers layers_of(const TrainConfig& config) {
  if (!config.has_network()) return load_parameters(config).layers();
  const Dataset dataset = config.load_data();
  use_one_torch_thread();
  return make_replicas(config, dataset, 1).layers();
}

nlohmann::ordered_json number_or_null(double value) {
  return std::isnan(value) ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
}

nlohmann::ordered_json to_json(const TrainConfig& config, const Insight& insight) {
  nlohmann::ordered_json all = {{"method", config.method},
                                {"engine", config.engine},
                                {"rounds", insight.rounds},
                                {"initial_rounds", *config.initial_rounds},
                                {"learns", insight.learns},
                                {"weighted", insight.weighted},
                                {"workers", nlohmann::ordered_json::array()}};
  for (std::size_t m = 0; m < insight.workers.size(); ++m) {
    const WorkerInsight& worker = insight.workers[m];
    nlohmann::ordered_json row = {{"slot", m}};
    if (insight.served) row["owner"] = worker.owner;
    row["batch"] = worker.batch;
    row["rounds"] = worker.rounds;
    if (worker.error_rate) row["error_rate"] = *worker.error_rate;
    if (worker.weight) row["weight"] = *worker.weight;
    row["say"] = worker.say;
    row["mark"] = name_of(worker.mark);
    all["workers"].push_back(row);
  }
  for (std::size_t i = 0; i < insight.layers.size(); ++i) {
    const auto& [name, size] = insight.layers[i];
    nlohmann::ordered_json rates = nlohmann::ordered_json::array();
    for (const WorkerInsight& worker : insight.workers)
      rates.push_back(number_or_null(worker.layer_error_rates[i]));
    all["layers"].push_back({{"name", name}, {"size", size}, {"error_rates", rates}});
  }
  for (std::size_t i = 0; i < insight.agreement.size(); ++i) {
    if (i % insight.workers.size() == 0) all["agreement"].push_back(nlohmann::ordered_json::array());
    all["agreement"].back().push_back(number_or_null(insight.agreement[i]));
  }
  return all;
}

/// "904", or "903.5" for the mean of batches that differed.
std::string batch_text(double batch) {
  return fmt::format("{:.{}f}", batch, batch == std::floor(batch) ? 0 : 1);
}

std::string column(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

void print_table(const TrainConfig& config, const Insight& insight) {
  fmt::print("{}, {}, after {}\n", config.method_title(), counted(insight.workers.size(), "worker"),
             counted(insight.rounds, "round"));
  if (!insight.learns)
    fmt::print("The method {} learns nothing of its workers.\n", config.method);
  else if (!insight.weighted)
    fmt::print("All ballots count the same so far: weights come into force after {}.\n",
               counted(*config.initial_rounds, "round"));
  if (config.tally_method() == Method::agree && insight.workers.size() < 3)
    fmt::print("Agreement cannot tell two workers apart: p and weight mean nothing.\n");
  std::size_t widest = 5;
  for (const WorkerInsight& worker : insight.workers) widest = std::max(widest, worker.owner.size());
  const auto owner = [&](const std::string& name) {
    return insight.served ? fmt::format("  {:<{}}", name.empty() ? "-" : name, widest) : "";
  };
  std::string rows = fmt::format("{:>4}{}{:>9}{:>8}{:>8}{:>9}{:>8}\n", "slot", owner("owner"), "batch",
                                 "rounds", "p", "weight", "say");
  for (std::size_t m = 0; m < insight.workers.size(); ++m) {
    const WorkerInsight& worker = insight.workers[m];
    const std::string mark = worker.mark == Mark::none ? "" : "  " + name_of(worker.mark);
    rows += fmt::format("{:>4}{}{:>9}{:>8}{:>8}{:>9}{:>7.1f}%{}\n", m, owner(worker.owner),
                        batch_text(worker.batch), worker.rounds, column(worker.error_rate, 3),
                        column(worker.weight, 3), 100 * worker.say, mark);
  }
  fmt::print("{}", rows);
}

}  // namespace

int run_inspect(const InspectCommand& command) {
  const TrainConfig& config = command.config;
  const SavedTally saved = load_tally(config, command.run);
  const Insight insight = inspect(config, saved, counts_by_coordinate(config) ? layers_of(config) : Layers());
  std::optional<std::filesystem::path> picture;
  if (command.out && insight.learns) {
    picture = *command.out / "inspect.png";
    draw_heat_map(heat_map_of(insight), *picture);
  }
  if (command.json) {
    nlohmann::ordered_json all = to_json(config, insight);
    if (picture) all["picture"] = picture->string();
    fmt::print("{}\n", all.dump(2));
    return 0;
  }
  print_table(config, insight);
  if (picture) fmt::print("picture    {}\n", picture->string());
  return 0;
}

}  // namespace signvote::cli
