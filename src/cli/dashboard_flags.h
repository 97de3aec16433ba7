// --dashboard, --dashboard-cert and --dashboard-key: where a run shows itself in the browser.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/computing.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace signvote::cli {

/// Must outlive the command it was added to.
struct DashboardFlags {
  CLI::Option* option = nullptr;
  std::string address{};
  std::string certificate{};
  std::string key{};

  void add_to(CLI::App& command);

  /// The flags again, as they were given.
  std::vector<std::string> words() const;

  /// None if there is to be no dashboard. `own` are the keys of a server, which also serve here if others may
  /// reach the page and no others are given. Throws ConfigError if they may and there are none.
  std::optional<DashboardOptions> read(const std::filesystem::path& folder,
                                       const std::optional<TlsFiles>& own = std::nullopt) const;
};

}  // namespace signvote::cli
