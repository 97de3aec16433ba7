#include "run/worker_memory.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "journal/state_file.h"
#include "signvote/error.h"
#include "signvote/wire.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

const fs::path& made(const fs::path& folder) {
  make_folder(folder, Access::owner);
  return folder;
}

}  // namespace

WorkerMemory::WorkerMemory(const fs::path& folder, std::uint64_t run_id, std::uint32_t worker)
    : file_(folder / "memory.bin"), run_id_(run_id), worker_(worker), lock_(made(folder)) {}

void WorkerMemory::save(const LastVote& vote, const std::vector<float>& memory) const {
  const nlohmann::json notes = {
      {"run_id", run_id_}, {"worker", worker_}, {"samples", vote.loss.samples}, {"loss", vote.loss.loss}};
  State state{vote.round, notes.dump(), memory, {}};
  encode({MessageKind::ballot, run_id_, vote.round, worker_, vote.ballot.size()}, vote.ballot, state.tally);
  write_state(file_, StateKind::memory, state);
}

bool WorkerMemory::load(std::uint64_t parameters, std::optional<LastVote>& vote,
                        std::vector<float>& memory) const {
  if (!fs::exists(file_)) return false;
  State state = StateFile(file_, StateKind::memory, std::nullopt).load();
  const auto refuse = [this](const std::string& problem) {
    throw DataError(
        fmt::format("'{}' cannot be used: {}; remove it to begin anew without", file_.string(), problem));
  };
  LastVote last{state.round, {}, {}};
  try {
    const auto notes = nlohmann::json::parse(state.notes);
    if (notes.at("run_id") != run_id_ || notes.at("worker") != worker_)
      throw ConfigError(
          fmt::format("'{}' is of another run or worker; choose another --state", file_.string()));
    notes.at("samples").get_to(last.loss.samples);
    notes.at("loss").get_to(last.loss.loss);
  } catch (const nlohmann::json::exception&) {
    refuse("its notes are not those of a worker");
  }
  std::string problem;
  if (!decode(state.tally, {MessageKind::ballot, run_id_, state.round, worker_, parameters}, last.ballot,
              problem))
    refuse(problem);
  if (state.parameters.size() != memory.size()) refuse("it is of another model");
  memory = std::move(state.parameters);
  vote = std::move(last);
  return true;
}

}  // namespace signvote
