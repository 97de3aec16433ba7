#include "run/evaluator.h"

#include <algorithm>
#include <map>

#include "run/network.h"

namespace signvote {
namespace {

TrainConfig settings(const std::string& model, const std::string& data, std::uint32_t threads) {
  TrainConfig config;
  config.model = model;
  config.dataset = data;
  config.threads = threads;
  config.out = "unused";
  resolve(config);
  return config;
}

}  // namespace

Evaluator::Evaluator(const std::string& model, const std::string& data, std::uint32_t threads,
                     const std::filesystem::path& parameters)
    : config_(settings(model, data, threads)),
      dataset_(config_.load_data()),
      pool_(config_.thread_count(), use_one_torch_thread),
      replicas_(make_replicas(config_, dataset_, pool_.size())),
      served_(replicas_.size()) {
  Net& net = replicas_.net(0);
  if (dataset_.classes == 0 && !net.has_loss()) config_.loss = "mse";  // y are numbers
  loss_ = checked_loss(config_, dataset_, net);
  std::map<std::string, std::span<float>> by_name;
  std::span<float> rest = replicas_.parameters();
  for (const auto& [name, size] : replicas_.layers()) {
    layers_.push_back(rest.first(size));
    by_name[name] = layers_.back();
    rest = rest.subspan(size);
  }
  if (parameters.extension() == ".pt")
    std::ranges::transform(by_name, layers_.begin(), [](const auto& layer) { return layer.second; });
}

Evaluation Evaluator::test() {
  const float* next = served_.data();
  for (const std::span<float> layer : layers_) {
    std::copy_n(next, layer.size(), layer.begin());
    next += layer.size();
  }
  estimate_batch_norm(dataset_, replicas_, pool_);
  return evaluate(dataset_, replicas_, pool_, loss_);
}

}  // namespace signvote
