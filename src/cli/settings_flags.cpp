#include "cli/settings_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

namespace signvote::cli {
namespace {

/// What kind of value the help names, and shells complete.
std::string kind_of(const TrainOption& option) {
  if (option.name == "data" || option.name == "out") return "DIR";
  if (option.name == "dataset") return "NAME|DIR|FILE";
  if (option.name == "model") return "NAME|FILE.pt";
  if (option.name == "parameters") return "FILE";
  return option.text ? "TEXT" : "NUMBER";
}

}  // namespace

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
        ->type_name(kind_of(option));
  }
}

void SettingsFlags::apply_to(TrainConfig& config) const {
  if (!config_file.empty()) read_config(config_file, config);
  make_room(given, config);
  for (const auto& [option, text] : given) option->set(config, text);
}

}  // namespace signvote::cli
