#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kPatience{1};

[[noreturn]] void fail(std::string_view what, const fs::path& path, int error) {
  const char* hint = error == ENOSPC || error == EDQUOT ? "; free some space and try again"
                     : error == EACCES || error == EROFS || error == EPERM
                         ? "; choose a folder you may write to"
                         : "";
  throw DataError(fmt::format("cannot {} '{}': {}{}", what, path.string(), std::strerror(error), hint));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
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

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

int open_folder(const fs::path& path) { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

void sync_descriptor(int fd, const fs::path& path) {
  if (::fsync(fd) != 0) fail("sync", path, errno);
}

// What a crash has left under this name is removed first.
int open_new(const fs::path& path, Access access) {
  const auto try_it = [&] {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  access == Access::owner ? 0600 : 0644);
  };
  int fd = try_it();
  if (fd < 0 && errno == EEXIST && ::unlink(path.c_str()) == 0) fd = try_it();
  return fd;
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path, Access access, std::chrono::milliseconds patience)
    : path_(path), temporary_(path.string() + ".tmp"), folder_(-1), fd_(-1) {
  using Clock = std::chrono::steady_clock;
  for (const Clock::time_point end = Clock::now() + patience; true;
       std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    Descriptor folder(open_folder(folder_of(path)));
    if (folder.get() >= 0) fd_ = open_new(temporary_, access);
    if (fd_ >= 0) {
      folder_ = folder.release();
      return;
    }
    if ((errno != EMFILE && errno != ENFILE) || Clock::now() >= end) fail("write", temporary_, errno);
  }
}

AtomicFile::~AtomicFile() {
  ::close(folder_);
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> content) { write_all(fd_, content, temporary_); }

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("write", temporary_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename a file to", path_, errno);
  ::close(std::exchange(fd_, -1));
  sync_descriptor(folder_, folder_of(path_));
}

OpenFolder::OpenFolder(const fs::path& path) : path_(path), fd_(open_folder(path)) {
  if (fd_ < 0) fail("open", path, errno);
}

OpenFolder::~OpenFolder() { ::close(fd_); }

void OpenFolder::sync() const { sync_descriptor(fd_, path_); }

void write_file_atomically(const fs::path& path, std::span<const std::byte> content, Access access) {
  AtomicFile file(path, access, kPatience);
  file.write(content);
  file.commit();
}

void write_file_atomically(const fs::path& path, std::string_view content, Access access) {
  write_file_atomically(path, std::as_bytes(std::span(content)), access);
}

InputFile::InputFile(const fs::path& path) : path_(path), fd_(-1), bytes_(0) {
  // Without O_NONBLOCK, opening a pipe would wait for somebody who writes to it.
  Descriptor file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, "read");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("read", path, errno);
  if (!S_ISREG(status.st_mode))
    throw DataError(
        fmt::format("'{}' is not a file: it is a folder, a pipe or a device; give a file", path.string()));
  bytes_ = static_cast<std::uint64_t>(status.st_size);
  fd_ = file.release();
}

InputFile::~InputFile() { ::close(fd_); }

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path_, errno);
    if (got == 0) throw DataError(fmt::format("'{}' ends at byte {}", path_.string(), offset));
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::vector<std::byte> read_file(const fs::path& path) {
  const InputFile file(path);
  std::vector<std::byte> content(file.bytes());
  file.read(0, content);
  return content;
}

std::string read_text_file(const fs::path& path) {
  const std::vector<std::byte> content = read_file(path);
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

void make_folder(const fs::path& path, Access access) {
  std::error_code ignored;
  std::vector<fs::path> missing;
  for (fs::path at = path; !at.empty() && !fs::is_directory(at, ignored); at = at.parent_path())
    missing.push_back(at);
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    const mode_t mode = access == Access::owner && *at == path ? 0700 : 0777;
    if (::mkdir(at->c_str(), mode) != 0 && errno != EEXIST) fail("make the folder", path, errno);
    if (!fs::is_directory(*at, ignored)) fail("make the folder", path, ENOTDIR);
    OpenFolder(folder_of(*at)).sync();
  }
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

DurableLog::DurableLog(const fs::path& path, std::uint64_t keep_bytes)
    : path_(path), fd_(-1), bytes_(keep_bytes), synced_(keep_bytes) {
  Descriptor file(path, O_WRONLY | O_APPEND, "write");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("read", path, errno);
  if (static_cast<std::uint64_t>(status.st_size) < keep_bytes)
    throw DataError(
        fmt::format("'{}' is shorter than the {} bytes that were saved in it", path.string(), keep_bytes));
  if (static_cast<std::uint64_t>(status.st_size) > keep_bytes &&
      ::ftruncate(file.get(), static_cast<off_t>(keep_bytes)) != 0)
    fail("write", path, errno);
  if (::fdatasync(file.get()) != 0) fail("sync", path, errno);
  fd_ = file.release();
}

DurableLog::~DurableLog() { ::close(fd_); }

void DurableLog::require_sound() const {
  if (broken_)
    throw DataError(fmt::format(
        "'{}' takes no more after a failed write; check the disk and its free space, then start again",
        path_.string()));
}

void DurableLog::write(std::span<const std::byte> record) {
  require_sound();
  try {
    write_all(fd_, record, path_);
  } catch (const DataError&) {
    broken_ = ::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0;
    throw;
  }
  bytes_ += record.size();
}

void DurableLog::sync() {
  if (::fdatasync(fd_) == 0) {
    synced_ = bytes_;
    return;
  }
  const int error = errno;
  broken_ = true;
  bytes_ = synced_;
  // If this fails as well, whoever opens the file next finds whole records or a torn end.
  if (::ftruncate(fd_, static_cast<off_t>(bytes_)) == 0) ::fdatasync(fd_);
  fail("sync", path_, error);
}

}  // namespace signvote
