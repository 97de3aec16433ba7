// signvote reproduce figure1, signvote reproduce table

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>

#include "cli/commands.h"
#include "cli/settings_flags.h"
#include "signvote/error.h"

namespace signvote::cli {
namespace {

/// Checks what all cells share, and makes paths absolute before they are used from elsewhere.
void check_base(TrainConfig& base) {
  if (base.loss == "mse")
    throw ConfigError("figures and tables show accuracies, which there are none of with --loss mse");
  TrainConfig cell = base;
  resolve(cell);  // every cell is resolved by itself; here, errors are found at once
  base.dataset = cell.dataset;
  base.data = cell.data;
  base.model = cell.model;
  base.step = cell.step;
}

std::vector<NamedSettings> methods_of(const std::vector<std::string>& names) {
  std::vector<NamedSettings> methods;
  for (const std::string& name : names) {
    if (std::ranges::find(methods, name, &NamedSettings::name) != methods.end())
      throw ConfigError(fmt::format("--methods names {} twice", name));
    try {
      methods.push_back(method_settings(name));
    } catch (const ConfigError& error) {  // "--method is 'x'; take ..."
      const std::string what = error.what();
      throw ConfigError(
          fmt::format("--methods names '{}'{}, {}", name, what.substr(what.find("; take")), kOwnDefaults));
    }
  }
  return methods;
}

struct Figure1Flags {
  SettingsFlags settings{};
  std::vector<int> batch_modes{};
  std::vector<std::string> batches{};
  std::vector<std::string> methods = {"mv", "it"};
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
    Figure1Command command{defaults(), batches, methods_of(methods), seeds.value_or(full ? 3 : 1), out};
    if (full) {
      command.base.step = 1e-3;
      command.base.rounds = 3000;
      command.base.eval_every = 100;
    }
    settings.apply_to(command.base);
    check_base(command.base);
    if (out.empty()) command.out = "runs/figure1-" + command.base.dataset;
    for (const std::string& sizes : batches) {
      TrainConfig cell = command.base;
      cell.batches = sizes;
      resolve(cell);
    }
    std::vector<int> modes = batch_modes;
    if (modes.empty() && batches.empty()) modes = {1, 2, 3, 4};
    std::ranges::sort(modes);
    for (const int mode : modes) command.panels.push_back(batches_of_mode(mode));
    for (std::size_t i = command.panels.size(); i-- > 0;)  // what was named twice
      if (std::ranges::count(command.panels, command.panels[i]) > 1)
        command.panels.erase(command.panels.begin() + static_cast<std::ptrdiff_t>(i));
    return command;
  }
};

void add_figure1(CLI::App& reproduce, const Computing& computing, Action& action) {
  const auto flags = std::make_shared<Figure1Flags>();
  CLI::App* figure1 =
      reproduce.add_subcommand("figure1", "Accuracy over rounds, both methods, batch modes 1 to 4");
  figure1->footer(
      "Examples:\n  signvote reproduce figure1 --dataset mnist --out runs/figure1\n"
      "  signvote reproduce figure1 --dataset mnist --seeds 3 --out runs/figure1     (goes on: adds seeds "
      "1 and 2)\n"
      "  signvote reproduce figure1 --batches 8x4,200 --methods mv,it,signvote --out runs/own\n"
      "  signvote reproduce figure1 --dataset cifar10 --model resnet56 --full --out runs/paper");
  figure1->add_option("--batch-modes", flags->batch_modes, "Which of the modes 1 to 4, e.g. 1,4 [1,2,3,4]")
      ->delimiter(',')
      ->check(CLI::Range(1, 4).description(""))
      ->type_name("LIST");
  figure1
      ->add_option("--batches", flags->batches,
                   "Your own batch sizes instead, e.g. 8x4,200; a panel for each time it is given")
      ->type_name("TEXT");
  figure1
      ->add_option(
          "--methods", flags->methods,
          "Methods to compare, the first with all others, e.g. mv,it,shrink; signvote is the program's "
          "own defaults: method, momentum and step [mv,it]")
      ->delimiter(',')
      ->type_name("LIST");
  figure1->add_option("--seeds", flags->seeds, "Runs of each cell, with seeds from --seed on [1]")
      ->check(CLI::Range(1, 1000).description(""))
      ->type_name("NUMBER");
  figure1->add_flag("--full", flags->full,
                    "The paper's setting: 3000 rounds, step 1e-3, 3 seeds, a test every 100 rounds");
  flags->settings.add_to(*figure1, Figure1Flags::defaults(),
                         {"method", "workers", "batch_mode", "batches", "prior_rounds", "forget", "patience",
                          "engine", "out", "parameters", "parameters_sha256"});
  figure1->add_option("--out", flags->out, "Folder of the figure and its cells [runs/figure1-DATASET]")
      ->type_name("DIR");
  figure1->callback([=, &computing, &action] {
    action = [flags, &computing] { return computing.figure1(flags->read()); };
  });
}

constexpr const char* kDecoding = "decoding";

struct TableFlags {
  SettingsFlags settings{};
  std::string name{};
  std::vector<std::string> rows{};
  std::vector<std::string> methods{};
  unsigned seeds = 1;
  std::string out{};

  static std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const TablePlan& plan : table_plans()) all.push_back(plan.name);
    all.emplace_back(kDecoding);
    return all;
  }

  TableCommand read() const {
    TableCommand command;
    command.seeds = seeds;
    command.plan.name = name;
    const auto plan = std::ranges::find(table_plans(), name, &TablePlan::name);
    if (plan != table_plans().end())
      command.plan = *plan;
    else if (name != kDecoding)
      throw ConfigError(fmt::format("--name is '{}'; take {}", name, fmt::join(names(), ", ")));
    if (name == kDecoding) check_decoding();
    parse_config(command.plan.toml, "table " + name, command.base);
    settings.apply_to(command.base);
    check_base(command.base);
    command.base.step.reset();  // each method has its default, unless it is given
    for (const auto& [option, text] : settings.given)
      if (option->name == "step") option->set(command.base, text);
    if (!methods.empty()) command.plan.methods = methods_of(methods);
    if (!rows.empty()) choose_rows(command.plan);
    command.out = out.empty() ? fmt::format("runs/table-{}", name) : out;
    return command;
  }

  void check_decoding() const {
    if (!rows.empty() || !methods.empty() || seeds != 1)
      throw ConfigError("--rows, --methods and --seeds are for tables of runs, which decoding is not");
    for (const auto& [option, text] : settings.given)
      if (option->name != "seed" && option->name != "threads")
        throw ConfigError(fmt::format("{} is for tables of runs, which decoding is not", flag(option->name)));
  }

  void choose_rows(TablePlan& plan) const {
    std::vector<NamedSettings> chosen;
    for (const std::string& row : rows) {
      const auto found = std::ranges::find(plan.rows, row, &NamedSettings::name);
      if (found == plan.rows.end()) {
        std::vector<std::string> known;
        for (const NamedSettings& one : plan.rows) known.push_back(one.name);
        throw ConfigError(
            fmt::format("--rows names '{}'; the table {} has {}", row, plan.name, fmt::join(known, ", ")));
      }
      chosen.push_back(*found);
    }
    plan.rows = std::move(chosen);
  }
};

void add_table(CLI::App& reproduce, const Computing& computing, Action& action) {
  const auto flags = std::make_shared<TableFlags>();
  CLI::App* table = reproduce.add_subcommand("table", "A table of docs/results.md");
  std::string tables;
  for (const TablePlan& plan : table_plans()) tables += fmt::format("  {:<11}{}\n", plan.name, plan.title);
  table->footer(fmt::format(
      "Tables:\n{}  {:<11}Signs sent over channels with known error rates; trains nothing\n\n"
      "Finished cells are kept, so that the same command goes on after a stop, and adds seeds.\n\n"
      "Examples:\n  signvote reproduce table --name decoding --out runs/decoding\n"
      "  signvote reproduce table --name modes --seeds 5 --seed 201 --out runs/modes\n"
      "  signvote reproduce table --name attacks --rows 'no attack,flip:6' --methods agree",
      tables, kDecoding));
  table
      ->add_option("--name,name", flags->name, fmt::format("Which: {}", fmt::join(TableFlags::names(), ", ")))
      ->required()
      ->type_name("TEXT");
  table->add_option("--rows", flags->rows, "Only these rows of it, e.g. 'mode 1,mode 4'")
      ->delimiter(',')
      ->type_name("LIST");
  table->add_option("--methods", flags->methods, "These methods, the first compared with all others")
      ->delimiter(',')
      ->type_name("LIST");
  table->add_option("--seeds", flags->seeds, "Runs of each cell, with seeds from --seed on [1]")
      ->check(CLI::Range(1, 1000).description(""))
      ->type_name("NUMBER");
  flags->settings.add_to(*table, {},
                         {"method", "workers", "batch_mode", "batches", "patience", "engine", "out",
                          "parameters", "parameters_sha256"});
  table->add_option("--out", flags->out, "Folder of the table and its cells [runs/table-NAME]")
      ->type_name("DIR");
  table->callback(
      [=, &computing, &action] { action = [flags, &computing] { return computing.table(flags->read()); }; });
}

}  // namespace

void add_reproduce(CLI::App& app, const Computing& computing, Action& action) {
  CLI::App* reproduce =
      app.add_subcommand("reproduce", "Redraw a figure of the paper, or a table of our own");
  reproduce->require_subcommand(1);
  add_figure1(*reproduce, computing, action);
  add_table(*reproduce, computing, action);
}

}  // namespace signvote::cli
