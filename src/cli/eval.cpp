// signvote eval

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "signvote/error.h"

namespace signvote::cli {
namespace {

namespace fs = std::filesystem;

struct EvalFlags {
  fs::path model{};  // a run's folder, or a .pt file
  std::string data{};
  bool json = false;

  EvalCommand read() const {
    EvalCommand command{model, std::nullopt, data, json};
    if (!fs::is_directory(model)) return command;
    command.run = load_run(model);
    if (!command.run->has_network())
      throw ConfigError(
          fmt::format("'{}' is a run of parameters without a network, so there is nothing to test them with",
                      model.string()));
    command.file = model / "model.pt";
    if (!fs::exists(command.file))
      throw DataError(fmt::format(
          "'{0}' has no model.pt: the run is not finished; go on with: signvote train --resume '{0}'",
          model.string()));
    return command;
  }
};

}  // namespace

void add_eval(CLI::App& app, const Computing& computing, Action& action) {
  const auto flags = std::make_shared<EvalFlags>();
  CLI::App* eval = app.add_subcommand("eval", "Test a trained model again, with a confusion matrix");
  eval->footer("Examples:\n  signvote eval runs/first\n  signvote eval runs/first/model.pt --json");
  eval->add_option("model", flags->model, "A run's folder, or a model.pt")
      ->required()
      ->type_name("DIR|MODEL.pt");
  eval->add_option("--data", flags->data, "Folder of the data set's files [the run's, or the cache]")
      ->type_name("DIR");
  eval->add_flag("--json", flags->json, "Print JSON instead of a table");
  eval->callback(
      [=, &computing, &action] { action = [flags, &computing] { return computing.eval(flags->read()); }; });
}

}  // namespace signvote::cli
