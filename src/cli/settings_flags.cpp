#include "cli/settings_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

namespace signvote::cli {

void SettingsFlags::add_config_file_to(CLI::App& command) {
  command.add_option("--config", config_file, "TOML file with any of the settings below; flags override it")
      ->type_name("FILE");
}

void SettingsFlags::add_to(CLI::App& command, const TrainConfig& defaults,
                           const std::vector<std::string>& leave_out) {
  for (const TrainOption& option : train_options()) {
    if (std::ranges::find(leave_out, option.name) != leave_out.end()) continue;
    const std::string value = option.get(defaults);
    command
        .add_option_function<std::string>(
            flag(option.name),
            [this, &option](const std::string& text) { given.emplace_back(&option, text); },
            option.help + (value.empty() ? "" : fmt::format(" [{}]", value)))
        ->type_name(option.text ? "TEXT" : "NUMBER");
  }
}

void SettingsFlags::apply_to(TrainConfig& config) const {
  if (!config_file.empty()) read_config(config_file, config);
  // These three say the same in different ways, so a flag for one replaces what the file says with any of
  // them.
  if (std::ranges::any_of(given, [](const auto& one) {
        const std::string& name = one.first->name;
        return name == "batch_mode" || name == "batches" || name == "workers";
      })) {
    config.batch_mode.reset();
    config.batches.clear();
    config.workers.reset();
  }
  // The same for a model, and a data set, and what the file says of them.
  for (const auto& [option, text] : given) {
    if (option->name == "model") config.model_file_sha256.clear();
    if (option->name == "parameters") config.parameters_sha256.clear();
    if (option->name == "method" && text != config.method) {  // another method has other defaults
      config.initial_rounds.reset();
      config.prior_rounds.reset();
      config.forget.reset();
      if ((text == "sgd") != config.full_precision()) config.step.reset();
    }
    if (option->name == "dataset" && !(is_dataset_name(text) && is_dataset_name(config.dataset))) {
      config.data.clear();
      config.context.reset();
    }
  }
  for (const auto& [option, text] : given) option->set(config, text);
}

}  // namespace signvote::cli
