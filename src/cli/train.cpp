// signvote train

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/dashboard_flags.h"
#include "cli/launcher.h"
#include "cli/settings_flags.h"
#include "signvote/error.h"

namespace signvote::cli {
namespace {

namespace fs = std::filesystem;

struct TrainFlags {
  SettingsFlags settings{};
  DashboardFlags dashboard{};
  std::string resume{};
  bool tensorboard = false;

  TrainCommand read() const {
    TrainCommand command;
    command.resume = !resume.empty();
    command.tensorboard = tensorboard;
    if (command.resume)
      command.config = resumed();
    else
      settings.apply_to(command.config);
    TrainConfig& config = command.config;
    resolve(config);
    if (config.engine == "grpc")
      throw ConfigError(
          "--engine grpc is started in parts, see: signvote server --help, signvote worker --help");
    if (config.engine != "mpi" && launched_ranks() > 1)
      throw ConfigError(
          fmt::format("{} processes were started as one job, but --engine is {}; add --engine mpi",
                      launched_ranks(), config.engine));
    command.dashboard = dashboard.read(config.out);
    command.to_go_on = {"train", "--resume", config.out};
    for (const std::string& word : dashboard.words()) command.to_go_on.push_back(word);
    if (tensorboard) command.to_go_on.emplace_back("--tensorboard");
    return command;
  }

  TrainConfig resumed() const {
    if (!settings.config_file.empty())
      throw ConfigError("--resume takes its settings from the run's own config.toml; leave --config out");
    const TrainConfig there = load_run(resume);
    TrainConfig config = there;
    make_room(settings.given, config);
    for (const auto& [option, text] : settings.given) option->set(config, text);
    resolve(config);
    std::optional<std::string> change = first_change(there, config);
    if (!change && fs::weakly_canonical(config.out) != fs::weakly_canonical(there.out))
      change = fmt::format("out = {}, not {}", there.out, config.out);
    if (change)
      throw ConfigError(fmt::format("--resume goes on with the settings of '{}', which has {}; leave it out",
                                    resume, *change));
    return config;
  }
};

}  // namespace

void add_train(CLI::App& app, const Computing& computing, Action& action) {
  const auto flags = std::make_shared<TrainFlags>();
  CLI::App* train = app.add_subcommand("train", "Train a model by votes: IT-signSGD, or signSGD-MV");
  train->footer(
      "Examples:\n  signvote train --dataset mnist --batch-mode 4 --rounds 1000 "
      "--out runs/first\n"
      "  signvote train --batches 14x4,904 --partition dirichlet:0.3 --seed 7\n"
      "  signvote train --config runs/first/config.toml --seed 1 --out runs/second\n"
      "  signvote train --resume runs/first\n"
      "  signvote train --batch-mode 4 --tensorboard --out runs/shown     (then: tensorboard --logdir runs)\n"
      "  signvote train --model net.pt --dataset my_arrays --batches 8,120     (see docs/own_model.md)\n\n"
      "Every setting is also a key of the TOML file: --initial-rounds 50 is initial_rounds = 50.");
  flags->settings.add_config_file_to(*train);
  train
      ->add_option("--resume", flags->resume,
                   "Go on with the run in this folder, to the same bytes as if it had never stopped")
      ->type_name("DIR");
  flags->dashboard.add_to(*train);
  train->add_flag("--tensorboard", flags->tensorboard,
                  "Write metrics for TensorBoard too, to DIR/tensorboard (see: tensorboard --logdir DIR)");
  flags->settings.add_to(*train, {}, {"parameters", "parameters_sha256"});
  train->callback(
      [=, &computing, &action] { action = [flags, &computing] { return computing.train(flags->read()); }; });
}

}  // namespace signvote::cli
