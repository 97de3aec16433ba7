// A run's settings as flags of a command.
#pragma once

#include <string>
#include <vector>

#include "run/config.h"

namespace CLI {
class App;
}

namespace signvote::cli {

/// Must outlive the command it was added to.
struct SettingsFlags {
  std::string config_file;         // --config; empty: none
  std::vector<GivenOption> given;  // flags and their texts

  void add_config_file_to(CLI::App& command);
  /// The help shows `defaults`. What the command decides by itself is in `leave_out`.
  void add_to(CLI::App& command, const TrainConfig& defaults, const std::vector<std::string>& leave_out);

  /// Applies the file's settings, and then the flags', which override them.
  void apply_to(TrainConfig& config) const;
};

}  // namespace signvote::cli
