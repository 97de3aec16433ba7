#include "journal/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".tmp";

bool take_text(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool take_number(std::string_view& text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// Returns false if the file is not the journal's. A number must be written exactly as the journal writes
// it.
bool sort_in(const std::string& name, FolderListing& listing) {
  std::uint64_t round = 0;
  FolderListing::Range range;
  std::string_view text = name;
  if (take_text(text, "base-") && take_number(text, round) && name == base_name(round)) {
    listing.bases.push_back(round);
    return true;
  }
  text = name;
  if (take_text(text, "snapshot-") && take_number(text, round) && name == snapshot_name(round)) {
    listing.snapshots.push_back(round);
    return true;
  }
  text = name;
  if (take_text(text, "rounds-") && take_number(text, round) && name == rounds_name(round)) {
    listing.logs.push_back(round);
    return true;
  }
  text = name;
  if (take_text(text, "verdicts-") && take_number(text, range.first) && take_text(text, "-") &&
      take_number(text, range.last) && name == verdicts_name(range.first, range.last) &&
      range.first < range.last) {
    listing.verdicts.push_back(range);
    return true;
  }
  return false;
}

bool contains(const std::vector<std::uint64_t>& sorted, std::uint64_t value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

[[noreturn]] void missing(const fs::path& folder, const std::string& what) {
  throw DataError(
      fmt::format("{} missing in '{}'; put back from a backup what was there", what, folder.string()));
}

// The verdict files from base to snapshot. They are searched from the end, because an unfinished snapshot
// may have left a shorter file with the same beginning.
std::vector<FolderListing::Range> find_chain(const fs::path& folder, const FolderListing& listing,
                                             std::uint64_t base, std::uint64_t snapshot) {
  std::vector<FolderListing::Range> chain;
  for (std::uint64_t at = snapshot; at > base;) {
    std::uint64_t known = base;  // where the verdicts before a gap end
    const FolderListing::Range* found = nullptr;
    for (const FolderListing::Range& range : listing.verdicts) {
      if (range.last == at && range.first >= base) found = &range;
      if (range.last < at) known = std::max(known, range.last);
    }
    if (found == nullptr) missing(folder, fmt::format("the verdicts of rounds {} to {} are", known, at - 1));
    chain.insert(chain.begin(), *found);
    at = found->first;
  }
  return chain;
}

}  // namespace

std::string base_name(std::uint64_t round) { return fmt::format("base-{}.bin", round); }
std::string snapshot_name(std::uint64_t round) { return fmt::format("snapshot-{}.bin", round); }
std::string rounds_name(std::uint64_t first) { return fmt::format("rounds-{}.log", first); }
std::string verdicts_name(std::uint64_t first, std::uint64_t last) {
  return fmt::format("verdicts-{}-{}.log", first, last);
}

FolderListing list_folder(const fs::path& folder) {
  FolderListing listing;
  std::error_code error;
  if (!fs::exists(folder, error) && !error) return listing;
  fs::directory_iterator entries(folder, error);
  while (!error && entries != fs::directory_iterator()) {
    const std::string name = entries->path().filename().string();
    FolderListing unfinished;
    if (!sort_in(name, listing) && name.ends_with(kTemporary) &&
        sort_in(name.substr(0, name.size() - kTemporary.size()), unfinished))
      listing.temporaries.push_back(name);
    entries.increment(error);
  }
  if (error) throw DataError(fmt::format("cannot read '{}': {}", folder.string(), error.message()));
  for (auto* rounds : {&listing.bases, &listing.snapshots, &listing.logs}) std::ranges::sort(*rounds);
  std::ranges::sort(listing.verdicts, {}, &FolderListing::Range::first);
  std::ranges::sort(listing.temporaries);
  return listing;
}

FolderPlan plan_folder(const fs::path& folder, const FolderListing& listing) {
  FolderPlan plan;
  if (listing.snapshots.empty()) missing(folder, "a snapshot, snapshot-S.bin, is");
  std::optional<std::uint64_t> current;
  for (const std::uint64_t round : listing.snapshots)
    if (contains(listing.logs, round)) current = round;
  if (!current) missing(folder, rounds_name(listing.snapshots.back()) + " is");
  plan.snapshot = *current;
  if (listing.logs.back() > plan.snapshot) missing(folder, snapshot_name(listing.logs.back()) + " is");
  if (listing.snapshots.back() > plan.snapshot) plan.unfinished = listing.snapshots.back();

  if (listing.bases.empty()) missing(folder, "the base, base-R.bin, is");
  plan.base = listing.bases.back();
  if (plan.base > plan.snapshot) missing(folder, snapshot_name(plan.base) + " or a later snapshot is");
  plan.verdicts = find_chain(folder, listing, plan.base, plan.snapshot);

  for (const std::uint64_t round : listing.bases)
    if (round != plan.base) plan.leftovers.push_back(base_name(round));
  for (const std::uint64_t round : listing.snapshots)
    if (round != plan.snapshot) plan.leftovers.push_back(snapshot_name(round));
  for (const std::uint64_t round : listing.logs)
    if (round != plan.snapshot) plan.leftovers.push_back(rounds_name(round));
  for (const FolderListing::Range& range : listing.verdicts)
    if (std::ranges::find(plan.verdicts, range) == plan.verdicts.end())
      plan.leftovers.push_back(verdicts_name(range.first, range.last));
  return plan;
}

}  // namespace signvote
