#include "run/train.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "cli/compute/commands.h"
#include "cli/compute/hooks.h"
#include "learn/dataset.h"
#include "run/ranks.h"
#include "run/record.h"
#include "signvote/error.h"

namespace signvote::cli {
namespace {

/// Ranks that do not agree on when to test, save and end would wait for each other for ever.
void compare_settings(const TrainConfig& config, const MpiSession* session) {
  if (session == nullptr) return;
  std::string mine;
  for (const TrainOption& option : train_options())
    if (option.name != "data" && option.name != "threads" && option.name != "out")
      mine += fmt::format("{} = '{}'\n", option.name, option.get(config));
  std::istringstream lines(mine);
  std::istringstream lines_of_rank0(session->of_rank0(mine));
  on_all_ranks(session, [&] {
    for (std::string line, expected; std::getline(lines, line) && std::getline(lines_of_rank0, expected);)
      if (line != expected)
        throw ConfigError(
            fmt::format("has other settings than rank 0: {} and not {}; only --data and --threads may differ",
                        line, expected));
  });
}

/// `session` is null if this is the only process.
int train_on_rank(const TrainConfig& config, bool resume, const MpiSession* session) {
  const bool leads = session == nullptr || session->rank() == 0;
  Dataset dataset;
  on_all_ranks(session, [&] {
    if (session != nullptr && session->ranks() > *config.workers)
      throw ConfigError(fmt::format("{} ranks for {} workers; start at most as many ranks as workers",
                                    session->ranks(), *config.workers));
    const nlohmann::json summary = resume ? read_summary(config.out) : nlohmann::json();
    if (!summary.is_null() && summary.value("rounds", std::uint64_t{0}) == config.rounds)
      throw ConfigError(
          fmt::format("'{}' has finished its {} rounds; give --rounds with a larger number to go on",
                      config.out, config.rounds));
    dataset = load_dataset(config.dataset, config.data_folder());
    check_batches(config, dataset);
  });
  compare_settings(config, session);
  on_all_ranks(session, [&] {  // only now, because a run that cannot begin on some rank leaves no folder
    if (!resume && leads) create_run(config);
  });
  TrainResult result;
  {
    ShownProgress progress;
    TrainHooks hooks = progress.hooks();
    hooks.started = [&config, session] {
      fmt::print(stderr, "{}: {} on {} with {} workers{} (batches {}), {} rounds\n", config.out,
                 config.method == "it" ? "IT-signSGD" : "signSGD-MV", config.dataset, *config.workers,
                 session != nullptr ? fmt::format(" on {} ranks", session->ranks()) : "", config.batches,
                 config.rounds);
    };
    result = train(config, dataset, hooks, session);
  }
  if (!result.finished) {
    if (leads)
      fmt::print(stderr, "stopped and saved after round {} of {}; go on with: signvote train --resume '{}'\n",
                 result.rounds, config.rounds, config.out);
    return kInterrupted;
  }
  if (leads) fmt::print("{}run folder      {}\n", format_summary(read_summary(config.out)), config.out);
  return 0;
}

}  // namespace

int run_train(const TrainCommand& command) {
  std::optional<MpiSession> session;
  if (command.config.engine == "mpi") session.emplace();
  return train_on_rank(command.config, command.resume, session ? &*session : nullptr);
}

}  // namespace signvote::cli
