#include "run/past_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/sha256.h"
#include "journal/journal.h"
#include "learn/evaluate.h"
#include "learn/model_file.h"
#include "learn/models.h"
#include "learn/parameters_file.h"
#include "run/bare_parameters.h"
#include "run/network.h"
#include "run/schedule.h"
#include "signvote/error.h"

namespace signvote {

namespace fs = std::filesystem;

namespace {

void check_size(const fs::path& folder, std::size_t parameters, std::size_t wanted) {
  if (parameters != wanted)
    throw DataError(
        fmt::format("'{}' has {} parameters where the model has {}", folder.string(), parameters, wanted));
}

}  // namespace

ModelFile write_past_model(const TrainConfig& config, const fs::path& folder,
                           std::optional<std::uint64_t> round, const fs::path& out) {
  const Journal journal(folder, Journal::Mode::read_only, [](const std::string&) {});
  ModelFile file;
  file.round = round.value_or(journal.rounds());
  const std::vector<float> parameters = journal.model(file.round, Schedule(config));
  file.model_sha256 = sha256_hex(std::as_bytes(std::span(parameters)));
  if (!config.has_network()) {
    ParametersFile kept = load_parameters(config);
    check_size(folder, parameters.size(), kept.values.size());
    kept.values = parameters;
    save_parameters(kept, out);
    return file;
  }
  const Dataset dataset = config.load_data();
  use_one_torch_thread();
  ThreadPool pool(config.thread_count(), use_one_torch_thread);
  Replicas replicas = make_replicas(config, dataset, 1);
  check_size(folder, parameters.size(), replicas.size());
  std::ranges::copy(parameters, replicas.parameters().begin());
  estimate_batch_norm(dataset, replicas, pool);
  save_model(replicas.net(0), out);
  return file;
}

}  // namespace signvote
