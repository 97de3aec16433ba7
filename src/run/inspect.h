// What the tally of a run has learnt, from its folder: whom it trusts, by how much, and where. Changes
// nothing and may be used while the run goes on. Does not use torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/run_state.h"
#include "report/heat_map.h"
#include "run/config.h"
#include "signvote/tally.h"

namespace signvote {

/// A run's tally as it was last saved or, with a server, after the journal's last round.
struct SavedTally {
  Tally tally;
  RunProgress progress;
  std::vector<std::string> owners;  // of the slots of a server; else empty
};

/// REQUIRES: `config` is that of the run in `folder`. Throws DataError if nothing is saved there yet, or if
/// it is damaged.
SavedTally load_tally(const TrainConfig& config, const std::filesystem::path& folder);

/// True for the methods that count errors by coordinate, it and shrink.
bool counts_by_coordinate(const TrainConfig& config);

enum class Mark {
  none,
  fresh,    // still in its initial phase: "new"
  guesses,  // its signs say about nothing: the weight is within +-kGuess
  liar,     // wrong more often than right: the weight is below that
};
std::string name_of(Mark mark);

/// In nats; an error rate of 0.475 weighs so much. Workers of random signs were seen with up to 0.09 (agree
/// pulls them to the mean), honest ones of the smallest batches with 0.31 and more.
inline constexpr double kGuess = 0.1;

struct WorkerInsight {
  std::string owner;  // with a server; empty: nobody's yet
  double batch = 0;   // the mean over the rounds that it voted in; before its first, as the settings say
  std::uint32_t rounds = 0;  // that the tally knows it from
  /// None if the method learns nothing, or the worker has not voted yet.
  std::optional<double> error_rate;
  std::optional<double> weight;  // in nats, the mean over coordinates; also if it was given beforehand
  double say = 0;                // its share of the magnitudes of all weights, if all vote in the next round
  Mark mark = Mark::none;
  std::vector<double> layer_error_rates;  // as many as layers; NaN: it has not voted yet
};

using Layers = std::vector<std::pair<std::string, std::size_t>>;  // names and coordinates

struct Insight {
  std::uint64_t rounds = 0;
  bool learns = false;    // or the method has nothing to learn
  bool weighted = false;  // whether the next round is decided by weights
  bool served = false;    // whether slots have owners
  std::vector<WorkerInsight> workers;
  Layers layers;                  // with it and shrink
  std::vector<double> agreement;  // with agree, see Tally::agreement_shares
};

/// `layers` are the model's, and are only needed if counts_by_coordinate; without them nothing is told by
/// layer. Throws DataError if they do not have as many coordinates as the tally.
Insight inspect(const TrainConfig& config, const Tally& tally, const RunProgress& progress,
                const std::vector<std::string>& owners, const Layers& layers);
inline Insight inspect(const TrainConfig& config, const SavedTally& saved, const Layers& layers) {
  return inspect(config, saved.tally, saved.progress, saved.owners, layers);
}

/// Worker by layer, or worker by worker. REQUIRES: the method learns.
HeatMap heat_map_of(const Insight& insight);

}  // namespace signvote
