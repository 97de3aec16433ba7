// signvote server, worker and journal: a run over a network that is not to be trusted.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "run/config.h"

namespace signvote::cli {

/// Adds the three to `app`. The one that is chosen is put into `action`; `read_settings` applies --config
/// and flags, which `add_settings` adds to a command. This and `action` must outlive `app`.
struct NetworkCommands {
  NetworkCommands();
  ~NetworkCommands();
  void add_to(CLI::App& app, std::function<int()>& action, const std::function<void(CLI::App&)>& add_settings,
              const std::function<void(TrainConfig&)>& read_settings);

 private:
  struct Flags;
  std::unique_ptr<Flags> flags_;
};

}  // namespace signvote::cli
