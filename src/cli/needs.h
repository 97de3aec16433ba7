// What a command needs of the system, looked at before torch is loaded: OpenBLAS waits for ever for memory
// that it does not get, and gRPC aborts without a thread or a file.
#pragma once

#include <cstddef>

#include "cli/computing.h"

namespace signvote::cli {

/// Estimates from above, made by measuring.
struct Needs {
  std::size_t threads = 1;
  std::size_t files = 0;      // open at the same time
  std::size_t megabytes = 0;  // of address space
};

Needs needs_of(const TrainCommand& command);
Needs needs_of(const Figure1Command& command);
Needs needs_of(const TableCommand& command);
Needs needs_of(const EvalCommand& command);
Needs needs_of(const ServerCommand& command);
Needs needs_of(const WorkerCommand& command);
Needs needs_of(const ModelCommand& command);
Needs needs_of(const InspectCommand& command);

/// Raises the limit of open files as far as this process may. Throws Error if a limit is too small.
void check_limits(const Needs& needs);

}  // namespace signvote::cli
