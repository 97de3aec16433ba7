// Files that are never half-written: a reader sees the old content or the new one, whatever happens
// to the writer in between. All failures throw DataError with the path and the reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace signvote {

/// Writes path.tmp, fsyncs it, renames it over path and fsyncs the folder.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> content);
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

std::vector<std::byte> read_file(const std::filesystem::path& path);
std::string read_text_file(const std::filesystem::path& path);

/// Makes the folder and its parents.
void make_folder(const std::filesystem::path& path);

/// Keeps other processes out of a folder for as long as it lives; the kernel frees it with the process.
/// Throws DataError if another one holds the folder.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

/// A text file that grows by whole lines; a line is written by one write call.
class LineLog {
 public:
  /// Opens path for appending, after cutting it to its first `keep_bytes` bytes.
  LineLog(const std::filesystem::path& path, std::size_t keep_bytes);
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  void append(std::string_view line);  // without its newline
  void sync();                         // what was appended is on the disk
  std::size_t bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  int fd_;
  std::size_t bytes_;
};

}  // namespace signvote
