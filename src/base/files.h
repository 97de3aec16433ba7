// Files that are never half-written: a reader sees the old content or the new one, whatever happens
// to the writer in between. Every failure throws DataError with the path and the reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace signvote {

/// Who may read a file or folder that is made here, as far as the umask lets them.
enum class Access { everybody, owner };

/// Writes path.tmp, fsyncs it, renames it over path and fsyncs the folder. path.tmp is always a new file, so
/// that nobody who can guess the name can have the content written through a link. A process that has no file
/// descriptor left waits up to a minute for one: a server in a flood of connections gets them back.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> content,
                           Access access = Access::everybody);
void write_file_atomically(const std::filesystem::path& path, std::string_view content,
                           Access access = Access::everybody);

/// The same for a file that is written in parts. commit() puts the whole file at path; without it
/// path stays as it was, and the destructor removes path.tmp. Only the constructor opens something, so a
/// process that has no file descriptor left, and gets none in the time of `patience`, fails before anything
/// has changed.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path, Access access = Access::everybody,
                      std::chrono::milliseconds patience = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> content);
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int folder_;
  int fd_;
};

/// A folder that is kept open, so that it can be synced when no file descriptor is left.
class OpenFolder {
 public:
  explicit OpenFolder(const std::filesystem::path& path);
  ~OpenFolder();
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;

  /// Returns when everything that was created, renamed or removed in the folder is on the disk.
  void sync() const;

 private:
  std::filesystem::path path_;
  int fd_;
};

/// A file that can be read from any offset, also after it was renamed or removed.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Fills `out` with the bytes from `offset` on. Several threads may read at the same time.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  std::uint64_t bytes() const { return bytes_; }  // the size when it was opened
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_;
  std::uint64_t bytes_;
};

std::vector<std::byte> read_file(const std::filesystem::path& path);
std::string read_text_file(const std::filesystem::path& path);

/// Makes the folder and its parents. Those that it made are on the disk when it returns. `access` is for the
/// folder itself.
void make_folder(const std::filesystem::path& path, Access access = Access::everybody);

/// Locks a folder against other processes that lock it. The lock ends with this object or, at the
/// latest, with the process. The constructor throws DataError if another process has the lock.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

/// A text file to which whole lines are appended, each by one write call.
class LineLog {
 public:
  /// Opens path for appending, after cutting it to its first `keep_bytes` bytes.
  LineLog(const std::filesystem::path& path, std::size_t keep_bytes);
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  void append(std::string_view line);  // adds the newline
  void sync();                         // returns when all lines are on the disk
  std::size_t bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  int fd_;
  std::size_t bytes_;
};

/// A file that grows by records, which are on the disk once sync has returned.
class DurableLog {
 public:
  /// Opens a file that is there, after cutting it to its first `keep_bytes` bytes, and syncs it: the
  /// writer before may have been killed before its sync.
  DurableLog(const std::filesystem::path& path, std::uint64_t keep_bytes);
  ~DurableLog();
  DurableLog(const DurableLog&) = delete;
  DurableLog& operator=(const DurableLog&) = delete;

  /// One write call. If that fails, the file is cut back to what it was: after a full disk it may be
  /// tried again.
  void write(std::span<const std::byte> record);
  /// After a failed sync nobody knows what the disk holds, because the kernel drops the pages it could
  /// not write: the file is cut back to what was synced, and from then on every write is refused.
  void sync();
  /// Throws what a write would throw because an earlier one, or a sync, has failed for good.
  void require_sound() const;
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t synced() const { return synced_; }  // of these bytes

 private:
  std::filesystem::path path_;
  int fd_;
  std::uint64_t bytes_;
  std::uint64_t synced_;
  bool broken_ = false;
};

}  // namespace signvote
