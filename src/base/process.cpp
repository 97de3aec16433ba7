#include "base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "signvote/error.h"

extern char** environ;

namespace signvote {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& program, int error) {
  const char* hint = error == ENOENT ? " (is it installed, and on the PATH?)" : "";
  throw DataError(fmt::format("cannot run '{}': {}{}", program, std::strerror(error), hint));
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() { reset(); }
  void reset() {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }
};

// What the child process does before it becomes the program. Owns the memory that posix_spawn needs for it.
struct Setup {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  Setup(const fs::path& working_folder, int input, int output) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, working_folder.c_str());
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    // The program must not inherit which signals this process blocks or ignores.
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigset_t defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGCHLD}) sigaddset(&defaults, signal);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Setup() {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;
};

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const fs::path& working_folder,
                          std::string_view input) {
  assert(!argv.empty());
  const std::string& program = argv.front();
  // posix_spawn reports a missing folder as a missing program.
  if (!fs::is_directory(working_folder))
    throw DataError(fmt::format("cannot run '{}' in '{}': not a folder", program, working_folder.string()));

  // The input is a file in memory and not a pipe, so that it need not be written while the output is
  // read, and a program that does not read it causes no SIGPIPE. All descriptors are close-on-exec, so
  // that a program which another thread starts at the same time does not hold them open.
  const Descriptor source{::memfd_create("input", MFD_CLOEXEC)};
  if (source.fd < 0) fail(program, errno);
  for (std::size_t done = 0; done < input.size();) {
    const ssize_t written = ::write(source.fd, input.data() + done, input.size() - done);
    if (written < 0 && errno != EINTR) fail(program, errno);
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  if (::lseek(source.fd, 0, SEEK_SET) != 0) fail(program, errno);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(program, errno);
  const Descriptor reading{ends[0]};
  Descriptor writing{ends[1]};

  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const Setup setup(working_folder, source.fd, writing.fd);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, program.c_str(), &setup.actions, &setup.attributes, arguments.data(), environ);
  if (error != 0) fail(program, error);
  writing.reset();

  ProcessResult result;
  std::array<char, 65536> buffer;
  while (true) {
    const ssize_t got = ::read(reading.fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    result.output.append(buffer.data(), static_cast<std::size_t>(got));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail(program, errno);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace signvote
