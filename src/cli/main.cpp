// The command line: reads flags, calls a command, and turns errors into one line and an exit code
// (0 done, 1 failed, 2 asked for wrongly, 130 interrupted).

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/network_commands.h"
#include "engine/group.h"
#include "run/train.h"
#include "signvote/error.h"
#include "signvote/version.h"

namespace signvote::cli {
namespace {

std::string flag(std::string name) {
  std::ranges::replace(name, '_', '-');
  return "--" + name;
}

/// Options of `train` given as flags, in the order of the table; applied after the config file.
using Given = std::vector<std::pair<const TrainOption*, std::string>>;

void add_train_options(CLI::App& command, Given& given, const TrainConfig& defaults = {},
                       const std::vector<std::string>& leave_out = {}) {
  for (const TrainOption& option : train_options()) {
    if (std::ranges::find(leave_out, option.name) != leave_out.end()) continue;
    const std::string value = option.get(defaults);
    command
        .add_option_function<std::string>(
            flag(option.name),
            [&given, &option](const std::string& text) { given.emplace_back(&option, text); },
            option.help + (value.empty() ? "" : fmt::format(" [{}]", value)))
        ->type_name(option.text ? "TEXT" : "NUMBER");
  }
}

void apply_flags(const Given& given, TrainConfig& config) {
  for (const auto& [option, text] : given) option->set(config, text);
}

class CommandLine {
 public:
  CommandLine()
      : app_(
            "Train one model on unequal machines over slow links, with about one bit per parameter per "
            "round.") {
    app_.set_version_flag("--version", "signvote " SIGNVOTE_VERSION);
    app_.require_subcommand(1);
    app_.footer(
        "First steps:\n  signvote data fetch mnist\n  signvote reproduce figure1 --dataset mnist --out "
        "runs/figure1\n"
        "  signvote train --batch-mode 4 --method it --out runs/first");
    add_train();
    add_reproduce();
    add_data();
    add_eval();
    network_.add_to(
        app_, action_, [this](CLI::App& command) { add_settings(command); },
        [this](TrainConfig& config) { read_settings(config); });
    add_certs();
  }

  int run(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app_.exit(error);
      if (!app_.remaining(true).empty()) throw ConfigError(unexpected(app_.remaining(true).front()));
      throw ConfigError(fmt::format("{}; see {} --help", error.what(), command_name()));
    }
    return action_();
  }

 private:
  void add_train() {
    CLI::App* train = app_.add_subcommand("train", "Train a model with IT-signSGD or signSGD-MV");
    train->footer(
        "Examples:\n  signvote train --dataset mnist --batch-mode 4 --method it --rounds 300 --step 1e-4 "
        "--out runs/it\n"
        "  signvote train --batches 14x4,904 --partition dirichlet:0.3 --seed 7\n"
        "  signvote train --config runs/it/config.toml --seed 1 --out runs/it-seed1\n"
        "  signvote train --resume runs/it --rounds 600\n\n"
        "Every flag is also a key of the TOML file: --initial-rounds 50 is initial_rounds = 50.");
    train->add_option("--config", config_file_, "TOML file with any of the options below; flags go before it")
        ->type_name("FILE");
    train
        ->add_option("--resume", resume_,
                     "Go on with the run in this folder, to the same bytes as if it had never stopped")
        ->type_name("DIR");
    add_train_options(*train, given_);
    train->callback([this] { action_ = [this] { return resume_.empty() ? start() : resume(); }; });
  }

  /// For commands that take a run's settings but say by themselves where they go.
  void add_settings(CLI::App& command) {
    command
        .add_option("--config", config_file_, "TOML file with any of the options below; flags go before it")
        ->type_name("FILE");
    add_train_options(command, given_, {}, {"engine", "out"});
  }

  /// --config's, and over them the flags'.
  void read_settings(TrainConfig& config) {
    if (!config_file_.empty()) read_config(config_file_, config);
    for (const auto& [option, text] : given_) {
      // A flag that says who takes how much replaces all that the file says of it.
      if (option->name == "batch_mode" || option->name == "batches" || option->name == "workers") {
        config.batch_mode.reset();
        config.batches.clear();
        config.workers.reset();
      }
    }
    apply_flags(given_, config);
  }

  int start() {
    TrainConfig config;
    read_settings(config);
    resolve(config);
    return run_train(config, false);
  }

  int resume() {
    if (!config_file_.empty())
      throw ConfigError("--resume takes its settings from the run's own config.toml; leave --config out");
    TrainConfig config = load_run(resume_);
    for (const auto& [option, text] : given_) {
      if (option->fixes_result || option->name == "out")
        throw ConfigError(fmt::format("--resume goes on with the settings of '{}'; {} cannot be changed",
                                      resume_, flag(option->name)));
      option->set(config, text);
    }
    return run_train(config, true);
  }

  void add_reproduce() {
    CLI::App* reproduce = app_.add_subcommand("reproduce", "Redraw a figure of the paper");
    reproduce->require_subcommand(1);
    CLI::App* figure1 =
        reproduce->add_subcommand("figure1", "Accuracy over rounds, both methods, batch modes 1 to 4");
    figure1->footer(
        "Examples:\n  signvote reproduce figure1 --dataset mnist --out runs/figure1\n"
        "  signvote reproduce figure1 --dataset mnist --seeds 3 --out runs/figure1     (goes on: adds seeds "
        "1 and 2)\n"
        "  signvote reproduce figure1 --dataset cifar10 --model resnet56 --full --out runs/paper");
    figure1
        ->add_option("--batch-modes", figure1_.batch_modes, "Which of the modes 1 to 4, e.g. 1,4 [1,2,3,4]")
        ->delimiter(',')
        ->check(CLI::Range(1, 4).description(""))
        ->type_name("LIST");
    seeds_ = figure1->add_option("--seeds", figure1_.seeds, "Runs of each cell, with seeds 0, 1, ... [1]")
                 ->check(CLI::Range(1, 1000).description(""))
                 ->type_name("NUMBER");
    figure1->add_flag("--full", full_,
                      "The paper's setting: 3000 rounds, step 1e-3, 3 seeds, a test every 100 rounds");
    figure1_.base.step = 1e-4;  // at the paper's 1e-3 single tests jump too much to compare short runs
    add_train_options(*figure1, given_, figure1_.base,
                      {"method", "workers", "batch_mode", "batches", "seed", "engine", "out"});
    figure1->add_option("--out", out_, "Folder of the figure and its cells [runs/figure1-DATASET]")
        ->type_name("DIR");
    figure1->callback([this] { action_ = [this] { return reproduce_figure(); }; });
  }

  int reproduce_figure() {
    TrainConfig& base = figure1_.base;
    if (full_) {
      base.step = 1e-3;
      base.rounds = 3000;
      base.eval_every = 100;
      if (seeds_->count() == 0) figure1_.seeds = 3;
    }
    apply_flags(given_, base);
    figure1_.out = out_.empty() ? "runs/figure1-" + base.dataset : out_;
    std::ranges::sort(figure1_.batch_modes);
    const auto repeated = std::ranges::unique(figure1_.batch_modes);
    figure1_.batch_modes.erase(repeated.begin(), repeated.end());
    return run_figure1(figure1_);
  }

  void add_data() {
    CLI::App* data = app_.add_subcommand("data", "Get the data sets");
    data->require_subcommand(1);
    CLI::App* fetch =
        data->add_subcommand("fetch", "Download a data set into the cache, or take it from a folder");
    fetch->footer("Examples:\n  signvote data fetch mnist\n  signvote data fetch cifar10 --from ~/Downloads");
    fetch->add_option("name", fetch_.name, "mnist or cifar10")
        ->required()
        ->check(CLI::IsMember({"mnist", "cifar10"}))
        ->type_name("");
    fetch->add_option("--from", fetch_.from, "Take the files from this folder instead of the network")
        ->type_name("DIR");
    fetch->add_option("--mirror", fetch_.mirror, "Download from this address instead of the official one")
        ->type_name("URL");
    fetch->add_option("--into", fetch_.into, "Put the files here instead of the cache")->type_name("DIR");
    fetch->callback([this] { action_ = [this] { return run_fetch(fetch_); }; });
  }

  void add_eval() {
    CLI::App* eval = app_.add_subcommand("eval", "Test a trained model again, with a confusion matrix");
    eval->footer("Examples:\n  signvote eval runs/first\n  signvote eval runs/first/model.pt --json");
    eval->add_option("model", eval_.model, "A run's folder, or a model.pt")
        ->required()
        ->type_name("DIR|MODEL.pt");
    eval->add_option("--data", eval_.data, "Folder of the data set's files [the run's, or the cache]")
        ->type_name("DIR");
    eval->add_flag("--json", eval_.json, "Print JSON instead of a table");
    eval->callback([this] { action_ = [this] { return run_eval(eval_); }; });
  }

  void add_certs() {
    CLI::App* certs = app_.add_subcommand("certs", "Make certificates for a server and its workers");
    certs->require_subcommand(1);
    certs->footer(
        "Examples:\n  signvote certs new-ca certs\n"
        "  signvote certs server certs --host vote.example.org --host 192.0.2.7\n"
        "  signvote certs worker certs --name ann --name bob\n\n"
        "A worker gets ca.pem and its own .pem and .key; ca.key stays where it was made.");
    const auto add = [&](const std::string& name, const std::string& help, const std::string& folder_help,
                         int& days, int (*make)(const CertsOptions&)) {
      CLI::App* command = certs->add_subcommand(name, help);
      command->add_option("folder", certs_.folder, folder_help)->required()->type_name("DIR");
      command->add_option("--days", days, fmt::format("How long it is valid [{}]", days))
          ->check(CLI::Range(1, 36500).description(""))
          ->type_name("NUMBER");
      command->callback([this, make] { action_ = [this, make] { return make(certs_); }; });
      return command;
    };
    CLI::App* ca = add("new-ca", "Make an authority: ca.pem and ca.key", "Where to; made if it is not there",
                       certs_.ca_days, run_certs_new_ca);
    ca->footer("Examples:\n  signvote certs new-ca certs\n  signvote certs new-ca certs --days 30");
    CLI::App* server = add("server", "Make the server's certificate: server.pem and server.key",
                           "The folder of the authority", certs_.days, run_certs_server);
    server->footer(
        "Examples:\n  signvote certs server certs --host localhost --host 127.0.0.1\n"
        "  signvote certs server certs --host vote.example.org --days 90");
    server->add_option("--host", certs_.hosts, "A name or address that workers connect to; may be repeated")
        ->required()
        ->type_name("HOST");
    CLI::App* worker = add("worker", "Make workers' certificates: NAME.pem and NAME.key",
                           "The folder of the authority", certs_.days, run_certs_worker);
    worker->footer(
        "Examples:\n  signvote certs worker certs --name ann\n  signvote certs worker certs --name ann "
        "--name bob");
    worker->add_option("--name", certs_.names, "What the server calls it; may be repeated, for a worker each")
        ->required()
        ->type_name("NAME");
  }

  const CLI::App* innermost() const {
    const CLI::App* command = &app_;
    while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
    return command;
  }

  std::string command_name() const {
    std::string name = "signvote";
    for (const CLI::App* command = &app_; !command->get_subcommands().empty();) {
      command = command->get_subcommands().front();
      name += " " + command->get_name();
    }
    return name;
  }

  std::string unexpected(const std::string& extra) const {
    const std::string word = extra.substr(0, extra.find('='));
    std::vector<std::string> known;
    for (const CLI::Option* option : innermost()->get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    for (const CLI::App* command : innermost()->get_subcommands({})) known.push_back(command->get_name());
    const auto near = nearest(word, known);
    return fmt::format(
        "unknown {} '{}'; {}", word.starts_with("-") ? "flag" : "argument", word,
        near ? fmt::format("did you mean {}?", *near) : fmt::format("see {} --help", command_name()));
  }

  CLI::App app_;
  std::function<int()> action_;
  Given given_;
  std::string config_file_;
  std::string resume_;
  Figure1Options figure1_;
  CLI::Option* seeds_ = nullptr;
  bool full_ = false;
  std::string out_;
  FetchOptions fetch_;
  EvalOptions eval_;
  NetworkCommands network_;
  CertsOptions certs_;
};

int fail() {
  try {
    throw;
  } catch (const ConfigError& error) {
    say(error.what());
    return 2;
  } catch (const std::exception&) {
    say(describe_current_exception());
    return 1;
  }
}

}  // namespace
}  // namespace signvote::cli

int main(int argc, char** argv) {
  using namespace signvote;
  try {
    const int code = cli::CommandLine().run(argc, argv);
    if (std::fflush(stdout) != 0)
      throw Error(fmt::format("cannot print the result: {}", std::strerror(errno)));
    return code;
  } catch (const std::exception&) {
    return cli::fail();
  }
}
