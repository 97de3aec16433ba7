#include "run/audit.h"

#include <fmt/format.h>

#include <cstring>

#include "base/sha256.h"
#include "engine/replay.h"
#include "engine/run_state.h"
#include "journal/journal.h"
#include "run/schedule.h"
#include "signvote/ballot_box.h"
#include "signvote/error.h"

namespace signvote {

namespace fs = std::filesystem;

TrainConfig load_server_run(const fs::path& state) {
  TrainConfig config = load_run(state);
  const fs::path journal = state / "journal";
  if (!fs::exists(journal))
    throw ConfigError(
        fmt::format("'{}' holds a run without a journal; is it a server's --state?", state.string()));
  if (!Journal::exists(journal)) Journal(journal, Journal::Mode::read_only, [](const std::string&) {});
  return config;
}

Audit audit_journal(const TrainConfig& config, const fs::path& folder) {
  Audit audit;
  const Journal journal(folder, Journal::Mode::read_only,
                        [&audit](const std::string& line) { audit.remarks.push_back(line); });
  const RunState saved = from_state(journal.snapshot(), folder.string());
  audit.rounds = journal.rounds();
  audit.oldest = journal.oldest();
  if (saved.run_id != config.run_id())
    throw DataError(fmt::format("'{}' is of another run than the config.toml beside it", folder.string()));
  Tally tally(config.tally_options(saved.parameters.size()));
  tally.restore(saved.tally);
  BallotBox box(tally, config.run_id());
  Replay replay(tally, box, saved.owners, folder);
  journal.replay([&](const JournalEvent& event) {
    if (replay.take(event) != nullptr) ++audit.decided;
  });
  const Schedule step_of(config);
  const std::vector<float> then = journal.model(saved.progress.rounds, step_of);
  if (std::memcmp(then.data(), saved.parameters.data(), then.size() * sizeof(float)) != 0)
    throw DataError(fmt::format("'{}': the verdicts up to round {} do not lead to the model in its snapshot",
                                folder.string(), saved.progress.rounds));
  const std::vector<float> now = journal.model(journal.rounds(), step_of);
  audit.model_sha256 = sha256_hex(std::as_bytes(std::span(now)));
  return audit;
}

}  // namespace signvote
