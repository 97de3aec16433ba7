// What the tables of docs/results.md compare. Does not use torch.
#pragma once

#include <string>
#include <vector>

namespace signvote {

/// Settings that have a name, as a TOML text.
struct NamedSettings {
  std::string name;
  std::string toml;
};

struct TablePlan {
  std::string name;   // e.g. "modes"
  std::string title;  // for people
  std::string toml;   // settings of all cells
  std::vector<NamedSettings> rows;
  std::vector<NamedSettings> methods;  // the first is the one that the others are compared with
};

/// The tables that are made of runs.
const std::vector<TablePlan>& table_plans();

/// A method of signvote train, or kOwnDefaults. Throws ConfigError if there is none of this name.
NamedSettings method_settings(const std::string& name);

/// Stands for all defaults of signvote train that matter for its result, beside the paper's methods.
inline constexpr const char* kOwnDefaults = "signvote";

}  // namespace signvote
