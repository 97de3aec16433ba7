#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "cli/compute/commands.h"
#include "learn/dataset.h"
#include "learn/evaluate.h"
#include "learn/model_file.h"

namespace signvote::cli {
namespace {

void print_json(const TrainConfig& config, const Evaluation& evaluation, const std::string& sha256) {
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < evaluation.classes; ++i)
    rows.push_back(std::vector<std::uint64_t>(
        evaluation.confusion.begin() + static_cast<std::ptrdiff_t>(i * evaluation.classes),
        evaluation.confusion.begin() + static_cast<std::ptrdiff_t>((i + 1) * evaluation.classes)));
  const nlohmann::ordered_json all = {{"model", config.model},
                                      {"dataset", config.dataset},
                                      {"samples", evaluation.samples},
                                      {"test_accuracy", evaluation.accuracy()},
                                      {"test_loss", evaluation.loss},
                                      {"model_sha256", sha256},
                                      {"confusion", rows}};
  fmt::print("{}\n", all.dump(2));
}

void print_table(const TrainConfig& config, const Evaluation& evaluation, const std::string& sha256) {
  fmt::print(
      "{} on {}'s test set: accuracy {:.2f} % ({} of {}), loss {:.4f}\nmodel sha256 {}\n\ntrue \\ "
      "predicted\n    ",
      config.model, config.dataset, 100 * evaluation.accuracy(), evaluation.correct(), evaluation.samples,
      evaluation.loss, sha256);
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
  const Dataset dataset = load_dataset(config.dataset, config.data_folder());
  use_one_torch_thread();
  ThreadPool pool(config.thread_count(), use_one_torch_thread);
  Replicas replicas(config.model, dataset.train, dataset.classes, 0, pool.size());
  for (std::size_t i = 0; i < replicas.count(); ++i) load_model(replicas.net(i), command.file);
  const Evaluation evaluation = evaluate(dataset, replicas, pool);
  const std::string sha256 = sha256_hex(std::as_bytes(replicas.parameters()));
  (command.json ? print_json : print_table)(config, evaluation, sha256);
  return 0;
}

}  // namespace signvote::cli
