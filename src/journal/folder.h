// Which files make up a journal, and which files in its folder are only leftovers of a crash.
//
// A snapshot is valid once its rounds-S.log exists: that file is made after everything else that belongs to
// the snapshot, and before anything of the old one is removed. The newest base is the valid one: it is made
// before anything that it replaces is removed. So after a crash at any moment the names alone tell which
// files are valid.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace signvote {

std::string base_name(std::uint64_t round);
std::string snapshot_name(std::uint64_t round);
std::string rounds_name(std::uint64_t first);
std::string verdicts_name(std::uint64_t first, std::uint64_t last);

/// The journal's files, by their names. Other files in the same folder are ignored and never touched.
struct FolderListing {
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    bool operator==(const Range&) const = default;
  };
  std::vector<std::uint64_t> bases, snapshots, logs;  // each ascending
  std::vector<Range> verdicts;                        // ascending
  std::vector<std::string> temporaries;

  bool operator==(const FolderListing&) const = default;
};

/// Throws DataError if the folder cannot be read. A folder that does not exist is empty.
FolderListing list_folder(const std::filesystem::path& folder);

struct FolderPlan {
  std::uint64_t base = 0;
  std::uint64_t snapshot = 0;                  // its rounds log has the same number
  std::vector<FolderListing::Range> verdicts;  // from base to snapshot, in order
  std::vector<std::string> leftovers;          // all other files of a journal
  /// A snapshot that was begun but never became valid: the log must then reach as far as this round.
  std::optional<std::uint64_t> unfinished;
};

/// Throws DataError if a file is missing.
FolderPlan plan_folder(const std::filesystem::path& folder, const FolderListing& listing);

}  // namespace signvote
