// Who may join a run, and whose share of the data is whose: names of certificates and the workers'
// numbers. A TOML file, which may be changed while the server runs:
//
//   alice = 0
//   "bob.example" = 1
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace signvote {

class AllowList {
 public:
  /// Without a file: worker-0 to worker-(workers - 1). Throws ConfigError for a file that makes no sense.
  AllowList(std::optional<std::filesystem::path> file, std::uint32_t workers);

  std::optional<std::uint32_t> find(const std::string& name) const;
  const std::map<std::string, std::uint32_t>& workers() const { return workers_by_name_; }

  /// Looks whether the file was changed. True if the list is now another. Throws ConfigError, once for each
  /// change, and keeps the list it has, if the file is gone, names nobody or makes no sense.
  bool reload();

 private:
  std::optional<std::filesystem::path> file_;
  std::uint32_t workers_;
  bool looked_ = false;
  std::optional<std::string> text_;  // of the file when it was looked at last; none: it could not be read
  std::map<std::string, std::uint32_t> workers_by_name_;
};

}  // namespace signvote
