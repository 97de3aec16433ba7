#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "cli/compute/commands.h"
#include "learn/dataset.h"
#include "learn/evaluate.h"
#include "learn/model_file.h"
#include "run/network.h"

namespace signvote::cli {
namespace {

constexpr std::size_t kWidestTable = 20;  // classes

std::string name_of(const TrainConfig& config) {
  return std::filesystem::path(config.model).filename().string();
}

void print_json(const TrainConfig& config, const Evaluation& evaluation, const std::string& sha256) {
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < evaluation.classes && !evaluation.confusion.empty(); ++i)
    rows.push_back(std::vector<std::uint64_t>(
        evaluation.confusion.begin() + static_cast<std::ptrdiff_t>(i * evaluation.classes),
        evaluation.confusion.begin() + static_cast<std::ptrdiff_t>((i + 1) * evaluation.classes)));
  nlohmann::ordered_json all = {
      {"model", name_of(config)}, {"dataset", config.dataset}, {"samples", evaluation.samples}};
  if (evaluation.accuracy()) all["test_accuracy"] = *evaluation.accuracy();
  all["test_loss"] = evaluation.loss;
  all["model_sha256"] = sha256;
  if (!rows.empty()) all["confusion"] = rows;
  fmt::print("{}\n", all.dump(2));
}

void print_table(const TrainConfig& config, const Evaluation& evaluation, const std::string& sha256) {
  const std::string accuracy =
      evaluation.accuracy() ? fmt::format("accuracy {:.2f} % ({} of {}), ", 100 * *evaluation.accuracy(),
                                          evaluation.correct, evaluation.judged)
                            : "";
  fmt::print("{} on {}'s test set: {}loss {:.4f}\nmodel sha256 {}\n", name_of(config), config.dataset,
             accuracy, evaluation.loss, sha256);
  if (evaluation.confusion.empty() || evaluation.classes > kWidestTable) return;
  fmt::print("\ntrue \\ predicted\n    ");
  for (std::size_t j = 0; j < evaluation.classes; ++j) fmt::print("{:>6}", j);
  for (std::size_t i = 0; i < evaluation.classes; ++i) {
    fmt::print("\n{:>4}", i);
    for (std::size_t j = 0; j < evaluation.classes; ++j)
      fmt::print("{:>6}", evaluation.confusion[i * evaluation.classes + j]);
  }
  fmt::print("\n");
}

}  // namespace

int run_eval(const EvalCommand& command) {
  TrainConfig config = command.run.value_or(TrainConfig{});
  if (!command.run) {
    const ModelKind kind = identify_model(command.file);
    config.model = kind.model;
    config.dataset = kind.dataset;
  }
  if (!command.data.empty()) config.data = command.data;
  const Dataset dataset = config.load_data();
  use_one_torch_thread();
  ThreadPool pool(config.thread_count(), use_one_torch_thread);
  Replicas replicas = make_replicas(config, dataset, pool.size());
  const Loss loss = checked_loss(config, dataset, replicas.net(0));
  for (std::size_t i = 0; i < replicas.count(); ++i) load_model(replicas.net(i), command.file);
  const Evaluation evaluation = evaluate(dataset, replicas, pool, loss);
  const std::string sha256 = sha256_hex(std::as_bytes(replicas.parameters()));
  (command.json ? print_json : print_table)(config, evaluation, sha256);
  return 0;
}

}  // namespace signvote::cli
