#include "run/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <variant>

#include "base/sha256.h"
#include "journal/journal.h"
#include "learn/evaluate.h"
#include "learn/models.h"
#include "learn/model_file.h"
#include "engine/replay.h"
#include "engine/run_state.h"
#include "signvote/error.h"
#include "signvote/ballot_box.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

float delta(const TrainConfig& config) { return static_cast<float>(config.step); }

}  // namespace

Audit audit_journal(const TrainConfig& config, const fs::path& folder) {
  Audit audit;
  const Journal journal(folder, Journal::Mode::read_only,
                        [&audit](const std::string& line) { audit.remarks.push_back(line); });
  const RunState saved = from_state(journal.snapshot(), folder.string());
  audit.rounds = journal.rounds();
  audit.oldest = journal.oldest();
  if (saved.run_id != config.run_id())
    throw DataError(fmt::format("'{}' is of another run than the config.toml beside it", folder.string()));
  Tally tally({config.tally_method(), *config.workers, 0, saved.parameters.size(), config.initial_rounds,
               config.clip});
  tally.restore(saved.tally);
  BallotBox box(tally, config.run_id());
  Replay replay(tally, box, saved.owners, folder);
  journal.replay([&](const JournalEvent& event) {
    if (replay.take(event) != nullptr) ++audit.decided;
  });
  const std::vector<float> then = journal.model(saved.progress.rounds, delta(config));
  if (std::memcmp(then.data(), saved.parameters.data(), then.size() * sizeof(float)) != 0)
    throw DataError(fmt::format("'{}': the verdicts up to round {} do not lead to the model in its snapshot",
                                folder.string(), saved.progress.rounds));
  const std::vector<float> now = journal.model(journal.rounds(), delta(config));
  audit.model_sha256 = sha256_hex(std::as_bytes(std::span(now)));
  return audit;
}

ModelFile write_past_model(const TrainConfig& config, const fs::path& folder,
                           std::optional<std::uint64_t> round, const fs::path& out) {
  const Journal journal(folder, Journal::Mode::read_only, [](const std::string&) {});
  ModelFile file;
  file.round = round.value_or(journal.rounds());
  const std::vector<float> parameters = journal.model(file.round, delta(config));
  file.model_sha256 = sha256_hex(std::as_bytes(std::span(parameters)));
  const Dataset dataset = load_dataset(config.dataset, config.data_folder());
  use_one_torch_thread();
  ThreadPool pool(config.thread_count(), use_one_torch_thread);
  Replicas replicas(config.model, dataset.train, dataset.classes, config.seed, 1);
  if (parameters.size() != replicas.size())
    throw DataError(fmt::format("'{}' has {} parameters where the model has {}", folder.string(),
                                parameters.size(), replicas.size()));
  std::ranges::copy(parameters, replicas.parameters().begin());
  estimate_batch_norm(dataset, replicas, pool);
  save_model(replicas.net(0), out);
  return file;
}

}  // namespace signvote
