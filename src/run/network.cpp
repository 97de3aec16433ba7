#include "run/network.h"

#include <fmt/format.h>

#include "base/files.h"
#include "base/sha256.h"
#include "learn/scripted_net.h"
#include "signvote/error.h"

namespace signvote {
namespace {

std::vector<std::byte> read_model_file(const TrainConfig& config) {
  std::vector<std::byte> file = read_file(config.model);
  if (sha256_hex(file) != config.model_file_sha256)  // resolve has compared them, but that was earlier
    throw DataError(fmt::format("'{}' was changed while it was being read", config.model));
  return file;
}

}  // namespace

Replicas make_replicas(const TrainConfig& config, const Dataset& dataset, std::size_t count) {
  if (!config.has_own_model())
    return Replicas(config.model, dataset.train.shape, dataset.classes, config.seed, count);
  const std::vector<std::byte> file = read_model_file(config);
  return Replicas([&] { return load_scripted_net(file, config.model); }, count);
}

Loss checked_loss(const TrainConfig& config, const Dataset& dataset, Net& net) {
  const Loss loss = choose_loss(config.loss, dataset, net);
  if (config.has_own_model()) try_network(net, dataset, loss);
  return loss;
}

void check_network(const TrainConfig& config, const Dataset& dataset) {
  if (!config.has_own_model() && is_dataset_name(config.dataset)) return;
  Replicas replicas = make_replicas(config, dataset, 1);
  checked_loss(config, dataset, replicas.net(0));
}

void keep_model_file(const TrainConfig& config) {
  if (!config.has_own_model()) return;
  const std::filesystem::path copy = std::filesystem::path(config.out) / kModelCopy;
  // A start that died may have left another run's.
  if (!std::filesystem::exists(copy) || sha256_hex(read_file(copy)) != config.model_file_sha256)
    write_file_atomically(copy, read_model_file(config));
}

}  // namespace signvote
