#include "cli/needs.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include "base/process.h"
#include "base/thread_pool.h"
#include "signvote/error.h"

namespace signvote::cli {
namespace {

// Megabytes, as /proc/PID/status showed them (VmPeak) for 1 to 32 threads and 3 to 403 workers.
constexpr std::size_t kProgram = 650;   // with its libraries
constexpr std::size_t kThread = 205;    // its stack, and what malloc and OpenBLAS keep for it
constexpr std::size_t kWorker = 8;      // its counters, ballot and momentum, for the largest of the models
constexpr std::size_t kNetwork = 1000;  // what malloc keeps for gRPC's threads, and their stacks

// A training was seen with 6 open files; a server of two workers with 21, and 16 threads of gRPC's.
constexpr std::size_t kFiles = 16;
constexpr std::size_t kNetworkFiles = 16;
constexpr std::size_t kNetworkThreads = 24;

constexpr std::size_t kDashboardThreads = 2;
constexpr std::size_t kDashboardFiles = 8;  // besides its connections
constexpr std::size_t kDashboard = 150;     // the stacks of its threads, and what malloc keeps for them

/// Of a process that trains this, with so many of its workers.
Needs needs_of(const TrainConfig& config, std::size_t workers) {
  // The files, and the samples from them. Of a data set that is not known, at least so much.
  const std::size_t data = config.dataset == "cifar10" ? 400 : 120;
  const std::size_t threads = config.thread_count();
  return {threads, kFiles, kProgram + data + threads * kThread + workers * kWorker};
}

Needs with(const std::optional<DashboardOptions>& dashboard, Needs needs) {
  if (!dashboard) return needs;
  needs.threads += kDashboardThreads;
  needs.files += dashboard->limits.connections + kDashboardFiles;
  needs.megabytes += kDashboard;
  return needs;
}

Needs with_network(Needs needs) {
  needs.threads += kNetworkThreads;
  needs.files += kNetworkFiles;
  needs.megabytes += kNetwork;
  return needs;
}

}  // namespace

Needs needs_of(const TrainCommand& command) {
  return with(command.dashboard, needs_of(command.config, *command.config.workers));
}
Needs needs_of(const Figure1Command& command) { return needs_of(command.base, 15); }
Needs needs_of(const TableCommand& command) { return needs_of(command.base, 15); }
Needs needs_of(const EvalCommand& command) { return needs_of(command.run.value_or(TrainConfig{}), 0); }
Needs needs_of(const ModelCommand& command) { return needs_of(command.config, *command.config.workers); }
Needs needs_of(const InspectCommand& command) { return needs_of(command.config, *command.config.workers); }

Needs needs_of(const ServerCommand& command) {
  const std::uint32_t workers = *command.config.workers;
  Needs needs = with(command.dashboard, with_network(needs_of(command.config, workers)));
  needs.files += workers;  // a connection each
  return needs;
}

Needs needs_of(const WorkerCommand& command) {
  TrainConfig config;  // the server tells the rest
  config.threads = command.threads;
  return with_network(needs_of(config, 1));
}

void check_limits(const Needs& needs) {
  raise_file_limit();
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < needs.files)
    throw Error(fmt::format("needs {0} open files, but the limit is {1}; raise it with: ulimit -n {0}",
                            needs.files, limit.rlim_cur));
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur >> 20 < needs.megabytes)
    throw Error(
        fmt::format("needs about {} MB of address space, but the limit is {} MB; take fewer --threads, or "
                    "raise it with: ulimit -v {}",
                    needs.megabytes, limit.rlim_cur >> 20, needs.megabytes << 10));
  const ThreadPool trial(needs.threads);  // throws if there are not so many to be had
}

}  // namespace signvote::cli
