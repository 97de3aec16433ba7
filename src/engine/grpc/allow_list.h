// Who may join: the names in certificates, and each name's slot (the worker's number). The list is a TOML
// file, which may be changed while the server runs:
//
//   alice = 0
//   "bob.example" = { worker = 1, key = "sha256:..." }
//
// With a key, only the certificate that has this key is bob.example's: a stolen certificate is shut out by
// giving its owner another key, though both are signed by the same authority.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace signvote {

struct AllowedWorker {
  std::uint32_t worker = 0;
  std::string key;  // as in Identity; empty: any
  bool operator==(const AllowedWorker&) const = default;
};

class AllowList {
 public:
  /// Without a file, the names are worker-0 to worker-(workers - 1). Throws ConfigError if the file makes
  /// no sense.
  AllowList(std::optional<std::filesystem::path> file, std::uint32_t workers);

  std::optional<std::uint32_t> find(const std::string& name) const;
  const std::map<std::string, AllowedWorker>& workers() const { return workers_by_name_; }

  /// Reads the file again; true if the list changed. If the file is gone, empty or makes no sense, keeps
  /// the old list and throws ConfigError, once for each change.
  bool reload();

 private:
  std::optional<std::filesystem::path> file_;
  std::uint32_t workers_;
  bool looked_ = false;
  std::optional<std::string> text_;  // the file when it was last read; none: it could not be read
  std::map<std::string, AllowedWorker> workers_by_name_;
};

}  // namespace signvote
