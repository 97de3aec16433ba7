#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view what, const fs::path& path, int error) {
  const char* hint = error == ENOSPC || error == EDQUOT ? "; free some space and try again"
                     : error == EACCES || error == EROFS || error == EPERM
                         ? "; choose a folder you may write to"
                         : "";
  throw DataError(fmt::format("cannot {} '{}': {}{}", what, path.string(), std::strerror(error), hint));
}

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, std::string_view what)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail(what, path, errno);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

void write_all(int fd, std::span<const std::byte> content, const fs::path& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("write", path, errno);
    }
    content = content.subspan(static_cast<std::size_t>(written));
  }
}

}  // namespace

void write_file_atomically(const fs::path& path, std::span<const std::byte> content) {
  const fs::path temporary = path.string() + ".tmp";
  try {
    const Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC, "write");
    write_all(file.get(), content, temporary);
    if (::fsync(file.get()) != 0) fail("write", temporary, errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("rename a file to", path, errno);
  } catch (const DataError&) {
    ::unlink(temporary.c_str());
    throw;
  }
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const Descriptor directory(folder, O_RDONLY | O_DIRECTORY, "open");
  if (::fsync(directory.get()) != 0) fail("sync", folder, errno);
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  write_file_atomically(path, std::as_bytes(std::span(content)));
}

std::vector<std::byte> read_file(const fs::path& path) {
  const Descriptor file(path, O_RDONLY, "read");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("read", path, errno);
  if (!S_ISREG(status.st_mode)) throw DataError(fmt::format("'{}' is not a file", path.string()));
  std::vector<std::byte> content(static_cast<std::size_t>(status.st_size));
  std::size_t have = 0;
  while (have < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + have, content.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path, errno);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  content.resize(have);
  return content;
}

std::string read_text_file(const fs::path& path) {
  const std::vector<std::byte> content = read_file(path);
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail("make the folder", path, error.value());
  if (!fs::is_directory(path)) fail("make the folder", path, ENOTDIR);
}

FolderLock::FolderLock(const fs::path& folder) : fd_(-1) {
  Descriptor directory(folder, O_RDONLY | O_DIRECTORY, "open");
  if (::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) fail("lock", folder, errno);
    throw DataError(
        fmt::format("another process is at work in '{}'; wait for it, or stop it", folder.string()));
  }
  fd_ = directory.release();
}

FolderLock::~FolderLock() { ::close(fd_); }

LineLog::LineLog(const fs::path& path, std::size_t keep_bytes) : path_(path), fd_(-1), bytes_(keep_bytes) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_APPEND, "write");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("read", path, errno);
  if (static_cast<std::size_t>(status.st_size) < keep_bytes)
    throw DataError(
        fmt::format("'{}' is shorter than the {} bytes that were saved in it", path.string(), keep_bytes));
  if (::ftruncate(file.get(), static_cast<off_t>(keep_bytes)) != 0) fail("write", path, errno);
  fd_ = file.release();
}

LineLog::~LineLog() { ::close(fd_); }

void LineLog::append(std::string_view line) {
  std::string text(line);
  text += '\n';
  write_all(fd_, std::as_bytes(std::span(text)), path_);
  bytes_ += text.size();
}

void LineLog::sync() {
  if (::fsync(fd_) != 0) fail("write", path_, errno);
}

}  // namespace signvote
