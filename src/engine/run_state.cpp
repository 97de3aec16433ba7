#include "engine/run_state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "signvote/error.h"

namespace signvote {

// States of earlier versions have no rank_bytes.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Traffic, ballots, ballot_bytes, verdicts, verdict_bytes,
                                                rank_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunProgress, rounds, seconds, training_seconds, traffic, votes, samples)

State to_state(RunState state) {
  const nlohmann::json notes = {{"run_id", state.run_id},
                                {"progress", state.progress},
                                {"shards", state.shards},
                                {"owners", state.owners}};
  return {state.progress.rounds, notes.dump(), std::move(state.parameters), std::move(state.tally)};
}

RunState from_state(State state, const std::string& file) {
  RunState result;
  try {
    const auto notes = nlohmann::json::parse(state.notes);
    notes.at("run_id").get_to(result.run_id);
    notes.at("progress").get_to(result.progress);
    notes.at("shards").get_to(result.shards);
    notes.at("owners").get_to(result.owners);
  } catch (const nlohmann::json::exception&) {
    throw DataError(fmt::format(
        "the notes in '{}' cannot be read; was it written by another version of signvote?", file));
  }
  result.parameters = std::move(state.parameters);
  result.tally = std::move(state.tally);
  return result;
}

}  // namespace signvote
