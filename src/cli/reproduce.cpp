// signvote reproduce figure1

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/settings_flags.h"
#include "signvote/error.h"

namespace signvote::cli {
namespace {

struct Figure1Flags {
  SettingsFlags settings{};
  std::vector<int> batch_modes = {1, 2, 3, 4};
  std::optional<unsigned> seeds{};
  bool full = false;
  std::string out{};

  static TrainConfig defaults() {
    TrainConfig config;  // the paper's: the sign of the gradient, a constant step
    config.sign_of = "gradient";
    config.step_schedule = "constant";
    config.step = 1e-4;  // at the paper's 1e-3 single tests jump too much to compare short runs
    return config;
  }

  Figure1Command read() const {
    Figure1Command command{defaults(), batch_modes, seeds.value_or(full ? 3 : 1), out};
    if (full) {
      command.base.step = 1e-3;
      command.base.rounds = 3000;
      command.base.eval_every = 100;
    }
    settings.apply_to(command.base);
    if (command.base.loss == "mse")
      throw ConfigError("figure1 shows accuracies, which there are none of with --loss mse");
    TrainConfig cell = command.base;
    resolve(cell);  // every cell is resolved by itself; here, errors are found at once
    command.base.dataset = cell.dataset;
    command.base.data = cell.data;
    command.base.model = cell.model;
    if (out.empty()) command.out = "runs/figure1-" + command.base.dataset;
    std::ranges::sort(command.batch_modes);
    const auto repeated = std::ranges::unique(command.batch_modes);
    command.batch_modes.erase(repeated.begin(), repeated.end());
    return command;
  }
};

}  // namespace

void add_reproduce(CLI::App& app, const Computing& computing, Action& action) {
  const auto flags = std::make_shared<Figure1Flags>();
  CLI::App* reproduce = app.add_subcommand("reproduce", "Redraw a figure of the paper");
  reproduce->require_subcommand(1);
  CLI::App* figure1 =
      reproduce->add_subcommand("figure1", "Accuracy over rounds, both methods, batch modes 1 to 4");
  figure1->footer(
      "Examples:\n  signvote reproduce figure1 --dataset mnist --out runs/figure1\n"
      "  signvote reproduce figure1 --dataset mnist --seeds 3 --out runs/figure1     (goes on: adds seeds "
      "1 and 2)\n"
      "  signvote reproduce figure1 --dataset cifar10 --model resnet56 --full --out runs/paper");
  figure1->add_option("--batch-modes", flags->batch_modes, "Which of the modes 1 to 4, e.g. 1,4 [1,2,3,4]")
      ->delimiter(',')
      ->check(CLI::Range(1, 4).description(""))
      ->type_name("LIST");
  figure1->add_option("--seeds", flags->seeds, "Runs of each cell, with seeds 0, 1, ... [1]")
      ->check(CLI::Range(1, 1000).description(""))
      ->type_name("NUMBER");
  figure1->add_flag("--full", flags->full,
                    "The paper's setting: 3000 rounds, step 1e-3, 3 seeds, a test every 100 rounds");
  flags->settings.add_to(
      *figure1, Figure1Flags::defaults(),
      {"method", "workers", "batch_mode", "batches", "prior_rounds", "seed", "engine", "out"});
  figure1->add_option("--out", flags->out, "Folder of the figure and its cells [runs/figure1-DATASET]")
      ->type_name("DIR");
  figure1->callback([=, &computing, &action] {
    action = [flags, &computing] { return computing.figure1(flags->read()); };
  });
}

}  // namespace signvote::cli
