#include "run/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/text.h"
#include "engine/checkpoint.h"
#include "engine/replay.h"
#include "journal/folder.h"
#include "journal/journal.h"
#include "signvote/ballot_box.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

void check_run(const RunState& state, const TrainConfig& config, const fs::path& folder) {
  if (state.run_id != config.run_id())
    throw DataError(fmt::format("'{}' holds the state of another run than its config.toml", folder.string()));
}

SavedTally load_journal(const TrainConfig& config, const fs::path& folder) {
  const Journal journal(folder, Journal::Mode::read_only, [](const std::string&) {});
  const RunState state = from_state(journal.snapshot(), folder.string());
  check_run(state, config, folder);
  SavedTally saved{Tally(config.tally_options(state.parameters.size())), state.progress, {}};
  saved.tally.restore(state.tally);
  BallotBox box(saved.tally, config.run_id());
  Replay replay(saved.tally, box, state.owners, folder);
  RunProgress& progress = saved.progress;
  progress.votes.resize(*config.workers);
  progress.samples.resize(*config.workers);
  journal.replay([&](const JournalEvent& event) {
    const RoundRecord* record = replay.take(event);
    if (record == nullptr) return;
    ++progress.rounds;
    for (const CastBallot& ballot : record->ballots) {
      if (ballot.message.empty()) continue;
      ++progress.votes[ballot.worker];
      progress.samples[ballot.worker] += ballot.batch;
    }
  });
  saved.owners = replay.owners();
  return saved;
}

SavedTally load_checkpointed(const TrainConfig& config, const fs::path& folder) {
  std::optional<RunState> state = load_checkpoint(folder, {});
  if (!state)
    throw DataError(
        fmt::format("'{}' has no checkpoint.bin yet: the run saves every {} (--save-every), at its "
                    "end and on Ctrl-C",
                    folder.string(), counted(config.save_every, "round")));
  check_run(*state, config, folder);
  SavedTally saved{Tally(config.tally_options(state->parameters.size())), state->progress, {}};
  restore_tally(*state, folder, saved.tally);
  return saved;
}

/// Loads what a run may be replacing meanwhile: an error counts if it is found twice in the same files.
template <typename Load, typename Version>
SavedTally load_steadily(const Load& load, const Version& version) {
  std::string before;
  while (true) {
    const auto files = version();
    try {
      return load();
    } catch (const DataError& error) {
      if (error.what() == before && version() == files) throw;
      before = error.what();
    }
  }
}

Mark mark_of(const WorkerInsight& worker, const TallyOptions& options) {
  if (worker.rounds < options.initial_rounds) return Mark::fresh;
  if (*worker.weight < -kGuess) return Mark::liar;
  return *worker.weight <= kGuess ? Mark::guesses : Mark::none;
}

std::vector<double> layer_error_rates(const Tally& tally, std::uint32_t worker, const Layers& layers) {
  const std::vector<std::uint16_t> counts = tally.half_errors(worker);
  std::vector<double> rates;
  auto at = counts.begin();
  for (const auto& [name, size] : layers) {
    const auto end = at + static_cast<std::ptrdiff_t>(size);
    const double errors = static_cast<double>(std::accumulate(at, end, std::int64_t{0})) / 2;
    rates.push_back(errors / (static_cast<double>(tally.rounds_of(worker)) * static_cast<double>(size)));
    at = end;
  }
  return rates;  // NaN without rounds
}

}  // namespace

bool counts_by_coordinate(const TrainConfig& config) {
  return config.tally_method() == Method::it || config.tally_method() == Method::shrink;
}

SavedTally load_tally(const TrainConfig& config, const fs::path& folder) {
  const fs::path journal = folder / "journal";
  if (fs::exists(journal))
    return load_steadily([&] { return load_journal(config, journal); }, [&] { return list_folder(journal); });
  return load_steadily([&] { return load_checkpointed(config, folder); },
                       [&] { return checkpoint_rounds(folder); });
}

std::string name_of(Mark mark) {
  switch (mark) {
    case Mark::none:
      return "";
    case Mark::fresh:
      return "new";
    case Mark::guesses:
      return "guesses";
    case Mark::liar:
      return "liar?";
  }
  return "";
}

Insight inspect(const TrainConfig& config, const Tally& tally, const RunProgress& progress,
                const std::vector<std::string>& owners, const Layers& layers) {
  const TallyOptions& options = tally.options();
  const bool counts = counts_by_coordinate(config);
  std::size_t coordinates = 0;
  for (const auto& [name, size] : layers) coordinates += size;
  if (!layers.empty() && counts && coordinates != tally.size())
    throw DataError(
        fmt::format("the tally has {} coordinates where the model has {}", tally.size(), coordinates));

  Insight insight;
  insight.rounds = tally.rounds();
  insight.learns = counts || options.method == Method::agree;
  insight.served = !owners.empty();
  if (counts) insight.layers = layers;
  insight.agreement = tally.agreement_shares();
  const std::vector<std::uint32_t> batches = config.batch_sizes();
  const bool is_fixed = options.method == Method::fixed;
  std::vector<double> magnitudes(options.workers);
  std::uint32_t mature = 0;
  for (std::uint32_t m = 0; m < options.workers; ++m) {
    WorkerInsight worker;
    if (insight.served) worker.owner = owners[m];
    const auto votes = static_cast<double>(progress.votes[m]);
    // A tally that learns nothing has not counted those of a run that it goes on from (fork_run).
    worker.rounds = insight.learns ? tally.rounds_of(m) : static_cast<std::uint32_t>(votes);
    worker.batch = votes > 0 ? static_cast<double>(progress.samples[m]) / votes : batches[m];
    if (is_fixed || (insight.learns && worker.rounds > 0)) {
      const Tally::MeanWeight mean = tally.mean_weight(m);
      worker.weight = mean.weight;
      magnitudes[m] = mean.magnitude;
    }
    if (insight.learns && worker.rounds > 0)
      worker.error_rate = counts ? static_cast<double>(tally.total_half_errors(m)) /
                                       (2.0 * worker.rounds * static_cast<double>(tally.size()))
                                 : 1 / (1 + std::exp(*worker.weight));
    if (insight.learns) worker.mark = mark_of(worker, options);
    if (worker.mark != Mark::fresh) ++mature;
    if (counts) worker.layer_error_rates = layer_error_rates(tally, m, layers);
    insight.workers.push_back(std::move(worker));
  }
  // As Tally::decide does, if all workers are present.
  insight.weighted =
      is_fixed || (insight.learns && mature > 0 && (tally.weighted() || 2 * mature >= options.workers));
  double sum = 0;
  for (std::uint32_t m = 0; m < options.workers; ++m) {
    if (!insight.weighted)
      magnitudes[m] = 1;
    else if (insight.workers[m].mark == Mark::fresh)
      magnitudes[m] = 0;
    sum += magnitudes[m];
  }
  for (std::uint32_t m = 0; m < options.workers; ++m)
    insight.workers[m].say = sum > 0 ? magnitudes[m] / sum : 1.0 / options.workers;
  return insight;
}

HeatMap heat_map_of(const Insight& insight) {
  HeatMap map;
  const bool by_layer = !insight.layers.empty();
  for (std::size_t m = 0; m < insight.workers.size(); ++m) {
    const WorkerInsight& worker = insight.workers[m];
    const std::string mark = worker.mark == Mark::none ? "" : fmt::format(" ({})", name_of(worker.mark));
    map.rows.push_back(fmt::format("{}{}{}{}", m, worker.owner.empty() ? "" : " ", worker.owner, mark));
    if (!by_layer) map.columns.push_back(fmt::to_string(m));
    map.values.insert(map.values.end(), worker.layer_error_rates.begin(), worker.layer_error_rates.end());
  }
  map.row_title = "worker";
  const std::string when = ", after " + counted(insight.rounds, "round");
  if (by_layer) {
    map.title = "How often each worker was wrong" + when;
    map.remark = "blue: right more often than not; white: a guess; orange: wrong more often";
    map.column_title = "layer";
    map.value_title = "mean error rate";
    map.low_is_good = true;
    for (const auto& [name, size] : insight.layers) map.columns.push_back(name);
  } else {
    map.title = "How often each two workers agreed" + when;
    map.remark = "blue: they agree; white: as by chance; orange: they contradict each other";
    map.column_title = "worker";
    map.value_title = "share of coordinates on which they agree";
    map.values = insight.agreement;
  }
  return map;
}

}  // namespace signvote
