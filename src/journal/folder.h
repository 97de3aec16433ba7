// Which files make up a journal, and which of those in its folder are what a crash has left behind.
//
// A snapshot counts once its rounds-S.log is there: that file is made after everything else that comes
// with the snapshot, and before anything of the old one goes. The newest base counts: it is made
// before anything that it stands for goes. So whatever happens between two steps, the names alone
// say what is in force.
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

/// The journal's files by name; others may lie in the same folder and are never touched.
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

/// Throws DataError if the folder cannot be read; one that is not there is empty.
FolderListing list_folder(const std::filesystem::path& folder);

struct FolderPlan {
  std::uint64_t base = 0;
  std::uint64_t snapshot = 0;                  // and its rounds log
  std::vector<FolderListing::Range> verdicts;  // from base to snapshot, in order
  std::vector<std::string> leftovers;          // all the rest
  /// A snapshot that was begun and never counted, and the rounds that must be there without it.
  std::optional<std::uint64_t> unfinished;
};

/// Throws DataError where a file is missing.
FolderPlan plan_folder(const std::filesystem::path& folder, const FolderListing& listing);

}  // namespace signvote
