#include "run/train.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/text.h"
#include "cli/compute/commands.h"
#include "cli/compute/hooks.h"
#include "cli/compute/ranks.h"
#include "cli/launcher.h"
#include "learn/dataset.h"
#include "run/dashboard.h"
#include "run/mpi.h"
#include "run/network.h"
#include "run/record.h"
#include "run/tensorboard.h"
#include "signvote/error.h"

namespace signvote::cli {
namespace {

/// Ranks that do not agree on when to test, save and end would wait for each other for ever.
void compare_settings(const TrainConfig& config, const Group& group) {
  std::string mine;
  for (const TrainOption& option : train_options())
    if (option.name != "data" && option.name != "threads" && option.name != "out")
      mine += fmt::format("{} = '{}'\n", option.name, option.get(config));
  std::istringstream lines(mine);
  std::istringstream lines_of_rank0(group.of_leader(mine));
  on_all_ranks(group, [&] {
    for (std::string line, expected; std::getline(lines, line) && std::getline(lines_of_rank0, expected);)
      if (line != expected)
        throw ConfigError(
            fmt::format("has other settings than rank 0: {} and not {}; only --data and --threads may differ",
                        line, expected));
  });
}

int train_in_group(const TrainCommand& command, const Group& group,
                   const std::function<EnginePlan(const TrainHooks&)>& make_plan) {
  const TrainConfig& config = command.config;
  const bool resume = command.resume;
  Dataset dataset;
  std::optional<RunDashboard> dashboard;
  on_all_ranks(group, [&] {
    if (group.size() > *config.workers)
      throw ConfigError(fmt::format("{} for {}; start at most as many ranks as workers",
                                    counted(group.size(), "rank"), counted(*config.workers, "worker")));
    if (const auto finished = resume ? finished_already(config) : std::nullopt) throw ConfigError(*finished);
    dataset = config.load_data();
    check_batches(config, dataset);
    check_network(config, dataset);
    if (command.dashboard && group.leads()) dashboard.emplace(config, *command.dashboard);
  });
  compare_settings(config, group);
  on_all_ranks(group, [&] {  // only now, because a run that cannot begin on some rank leaves no folder
    if (!resume && group.leads()) create_run(config);
  });
  TrainResult result;
  {
    ShownProgress progress;
    TrainHooks hooks = progress.hooks();
    hooks.started = [&] {
      fmt::print(stderr, "{}: {} on {} with {}{} (batches {}), {}\n", config.out, config.method_title(),
                 config.dataset, counted(*config.workers, "worker"),
                 group.size() > 1 ? fmt::format(" on {} ranks", group.size()) : "", config.batches,
                 counted(config.rounds, "round"));
      if (dashboard) fmt::print(stderr, "{}\n", dashboard->invitation());
    };
    if (dashboard) dashboard->watch(hooks);
    Tensorboard tensorboard(config);
    if (command.tensorboard) tensorboard.watch(hooks);
    result = train(config, dataset, hooks, make_plan(hooks), group);
    if (dashboard) dashboard->end(result);
  }
  if (!result.finished) {
    if (group.leads())
      fmt::print(stderr, "stopped and saved after round {} of {}; go on with: {}\n", result.rounds,
                 config.rounds, typed_command_with(command.to_go_on));
    return kInterrupted;
  }
  if (group.leads())
    fmt::print("{}run folder      {}\n", format_summary(read_summary(config.out)), config.out);
  return 0;
}

}  // namespace

int run_train(const TrainCommand& command) {
  const TrainConfig& config = command.config;
  if (config.engine != "mpi")
    return train_in_group(command, Group(), [&](const TrainHooks&) { return local_engine(config); });
  const MpiSession session;
  return end_together(session, [&] {
    return train_in_group(command, session,
                          [&](const TrainHooks& hooks) { return mpi_engine(config, session, hooks); });
  });
}

}  // namespace signvote::cli
