#include "run/backup.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/process.h"
#include "base/text.h"
#include "journal/folder.h"
#include "journal/journal.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSums = "SHA256SUMS";
constexpr std::string_view kFiles[] = {
    kSums,      "config.toml",    "metrics.jsonl",
    kModelCopy, "parameters.npy", "parameters.pt"};  // beside the journal's

/// A new folder beside `target` that only its owner may enter. It is removed at the end.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& target) {
    std::string name = target.string() + ".XXXXXX";
    if (::mkdtemp(name.data()) == nullptr)
      throw DataError(fmt::format("cannot make a folder beside '{}': {}; choose a folder you may write to",
                                  target.string(), std::strerror(errno)));
    path_ = name;
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// Runs a program and returns what it printed.
std::string run(const std::vector<std::string>& command, const fs::path& folder, const std::string& doing) {
  const ProcessResult result = run_process(command, folder);
  if (result.exit_code != 0) throw DataError(fmt::format("cannot {}: {}", doing, one_line(result.output)));
  return result.output;
}

/// In order, because the files of a backup may be packed again in another.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::ranges::sort(lines);
  return lines;
}

/// Without a slash at the end, so that something can be put beside it.
fs::path plain(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

void copy(const InputFile& from, const fs::path& to) {
  AtomicFile file(to, Access::owner);
  std::vector<std::byte> piece;
  for (std::uint64_t at = 0; at < from.bytes(); at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(from.bytes() - at, 1 << 20));
    from.read(at, piece);
    file.write(piece);
  }
  file.commit();
}

/// The journal as it stands at one instant. The server may remove files meanwhile, so those that a snapshot
/// replaces are opened first, and then the oldest verdicts are copied first. Only the log ever changes: it
/// grows.
void copy_journal(const fs::path& from, const FolderListing& listing, const fs::path& to) {
  const FolderPlan plan = plan_folder(from, listing);
  const std::string base = base_name(plan.base), snapshot = snapshot_name(plan.snapshot),
                    rounds = rounds_name(plan.snapshot);
  const InputFile base_file(from / base), snapshot_file(from / snapshot), rounds_file(from / rounds);
  fs::remove_all(to);
  make_folder(to, Access::owner);
  for (const auto& [first, last] : plan.verdicts)
    copy(InputFile(from / verdicts_name(first, last)), to / verdicts_name(first, last));
  copy(base_file, to / base);
  copy(snapshot_file, to / snapshot);
  copy(rounds_file, to / rounds);
  // Checks all of it and cuts off the ballots of the round that was open.
  const Journal journal(to, Journal::Mode::append, [](const std::string&) {});
}

void copy_run(const fs::path& state, const fs::path& to) {
  std::string before;
  while (true) {
    const FolderListing listing = list_folder(state / "journal");
    try {
      copy_journal(state / "journal", listing, to / "journal");
      break;
    } catch (const DataError& error) {  // counts if it is found twice in the same files, as for any reader
      if (error.what() == before && list_folder(state / "journal") == listing) {
        const Journal journal(state / "journal", Journal::Mode::read_only, [](const std::string&) {});
        throw;  // if the journal itself is damaged, the line before has told where
      }
      before = error.what();
    }
  }
  // After the journal, so that no row is missing. Rows of later rounds are cut off when the run goes on.
  if (fs::exists(state / "metrics.jsonl")) copy(InputFile(state / "metrics.jsonl"), to / "metrics.jsonl");
  for (const char* name : {kModelCopy, "parameters.npy", "parameters.pt"})
    if (fs::exists(state / name)) copy(InputFile(state / name), to / name);
  copy(InputFile(state / "config.toml"), to / "config.toml");
}

/// Packs everything that is in `folder`. The sums come first, so that a file that is cut off is missed.
void pack(const fs::path& folder, const fs::path& file) {
  std::vector<std::string> sum = {"sha256sum", "--"},
                           tar = {"tar", "--force-local", "-cf", file, "--", kSums};
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    sum.push_back(entry.path().lexically_relative(folder));
    tar.push_back(sum.back());
  }
  const std::string doing = fmt::format("write '{}'", file.string());
  write_file_atomically(folder / kSums, run(sum, folder, doing));
  run(tar, folder, doing);
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
}

/// True for the names that files in a backup have.
bool belongs(const std::string& name) {
  if (name.starts_with("journal/"))
    return name.size() > 8 && name[8] != '.' && name.find('/', 8) == name.npos;
  return std::ranges::find(kFiles, name) != std::end(kFiles);
}

/// The names of the files in a backup. Anybody may have made it, so throws DataError before anything is
/// unpacked if it has something else than such files (a link, a device, a path elsewhere), or if they would
/// take more space than the backup does.
std::vector<std::string> list(const fs::path& file, const fs::path& folder, const std::string& doing) {
  const std::string printed =
      run({"tar", "--force-local", "-tvf", fs::absolute(file), "--numeric-owner", "--quoting-style=escape"},
          folder, doing);
  std::vector<std::string> names;
  std::uint64_t room = fs::file_size(file);
  for (const std::string& line : lines_of(printed)) {
    std::istringstream words(line);
    std::string mode, owner, day, time, name;
    std::uint64_t bytes = 0;
    words >> mode >> owner >> bytes >> day >> time >> name;
    if (!words || !words.eof() || mode.front() != '-' || !belongs(name))
      throw DataError(fmt::format("cannot {}: it holds '{}'", doing, printable(line, 200)));
    if (bytes > room) throw DataError(fmt::format("cannot {}: it unpacks to more bytes than it has", doing));
    room -= bytes;
    names.push_back(std::move(name));
  }
  return names;
}

/// Unpacks into a new folder and checks everything.
Audit unpack(const fs::path& file, const fs::path& folder) {
  const InputFile readable(file);  // throws if it is none, before tar says so in its own words
  const std::string doing = fmt::format("unpack '{}', which is damaged or no backup", file.string());
  make_folder(folder);
  std::vector<std::string> names = list(file, folder, doing);
  if (std::erase(names, kSums) != 1 || names.empty())
    throw DataError(fmt::format("cannot {}: it has no {}", doing, kSums));
  run({"tar", "--force-local", "--no-same-owner", "--no-same-permissions", "-xf", fs::absolute(file)}, folder,
      doing);
  // Not by sha256sum --check, which would read whatever files the sums name.
  std::vector<std::string> sum = {"sha256sum", "--"};
  sum.insert(sum.end(), names.begin(), names.end());
  if (lines_of(run(sum, folder, doing)) != lines_of(read_text_file(folder / kSums)))
    throw DataError(fmt::format("cannot {}: the files are not those of its {}", doing, kSums));
  const TrainConfig config = load_server_run(folder);
  fs::permissions(folder / "journal", fs::perms::owner_all);
  return audit_journal(config, folder / "journal");
}

void rename_durably(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error)
    throw DataError(fmt::format("cannot rename something to '{}': {}", to.string(), error.message()));
  OpenFolder(to.parent_path()).sync();
}

}  // namespace

Audit back_up(const fs::path& state, const fs::path& file) {
  load_server_run(state);
  const fs::path target = plain(file);
  const WorkFolder work(target);
  copy_run(state, work / "run");
  pack(work / "run", work / "backup.tar");
  fs::remove_all(work / "run");
  Audit audit = unpack(work / "backup.tar", work / "again");
  DurableLog(work / "backup.tar", fs::file_size(work / "backup.tar"));  // syncs it
  rename_durably(work / "backup.tar", target);
  return audit;
}

Audit restore(const fs::path& file, const fs::path& state) {
  const fs::path target = plain(state);
  if (fs::exists(target) && (!fs::is_directory(target) || !fs::is_empty(target)))
    throw ConfigError(fmt::format("'{}' is not an empty folder; choose another --out", target.string()));
  make_folder(target.parent_path());
  const WorkFolder work(target);
  const fs::path made = work / "run";
  Audit audit = unpack(file, made);
  fs::remove(made / kSums);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(made)) {
    if (entry.is_regular_file()) DurableLog(entry.path(), entry.file_size());  // syncs it
    if (entry.is_directory()) OpenFolder(entry.path()).sync();
  }
  OpenFolder(made).sync();
  rename_durably(made, target);
  return audit;
}

}  // namespace signvote
