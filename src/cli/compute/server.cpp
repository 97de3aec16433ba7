#include "run/server.h"

#include <fmt/format.h>
#include <malloc.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "cli/compute/commands.h"
#include "cli/compute/hooks.h"
#include "cli/launcher.h"
#include "learn/dataset.h"
#include "run/bare_parameters.h"
#include "run/dashboard.h"
#include "run/learner.h"
#include "run/network.h"
#include "run/record.h"
#include "run/run_files.h"
#include "run/tensorboard.h"

namespace signvote::cli {

int run_server(const ServerCommand& command) {
  // By default glibc has eight heaps for each core, and gives threads now this and now that one. Each heap
  // stays as large as a flood of connections has once made it: two hold less than sixteen.
  ::mallopt(M_ARENA_MAX, 2);
  ServerEngineOptions options;
  options.listen.listen = command.listen;
  options.tls = command.tls;
  options.allow = command.allow;
  options.quorum = command.quorum;
  options.deadline_seconds = command.deadline_seconds;
  options.keep = command.keep;
  options.metrics_port = command.metrics_port;

  const TrainConfig& config = command.config;
  TrainHooks hooks = logging_hooks();
  if (const auto finished = finished_already(config)) {
    if (!std::filesystem::exists(std::filesystem::path(config.out) / kServerFile)) {
      fmt::print("{}\n{}run folder      {}\n", *finished, format_summary(read_summary(config.out)),
                 config.out);
      return 0;
    }
    hooks.warn(*finished + "; listens for ten seconds, because some workers may not know it yet");
  }
  Tensorboard tensorboard(config);
  if (command.tensorboard) tensorboard.watch(hooks);
  Dataset dataset;
  MakeTrainee make = [&] { return std::make_unique<BareParameters>(config); };
  if (config.has_network()) {
    dataset = config.load_data();
    check_batches(config, dataset);
    check_network(config, dataset);
    options.most_samples = static_cast<std::uint32_t>(dataset.train.count());
    make = [&] {
      return std::make_unique<Learner>(config, dataset, std::vector<std::uint32_t>{}, hooks.warn);
    };
  }
  make_folder(config.out);
  if (command.tls && !command.tls->warning().empty()) hooks.warn(command.tls->warning());
  // Without a network, how many samples a worker takes is its own business.
  const bool own_batches = command.own_batches || !config.has_network();
  std::optional<RunDashboard> dashboard;
  if (command.dashboard) {
    dashboard.emplace(config, *command.dashboard);
    options.attendance = &dashboard->attendance();
    dashboard->watch(hooks);
    hooks.warn(dashboard->invitation());
  }
  const TrainResult result = serve(config, options, own_batches, make, hooks);
  if (dashboard) dashboard->end(result);
  if (!result.finished) {
    hooks.warn(fmt::format("stopped and saved after round {} of {}; go on with: {}", result.rounds,
                           config.rounds, typed_command()));
    return kInterrupted;
  }
  fmt::print("{}run folder      {}\n", format_summary(read_summary(config.out)), config.out);
  return 0;
}

}  // namespace signvote::cli
