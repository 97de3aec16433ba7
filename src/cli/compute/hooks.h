// What a run tells its user, and how the user stops it.
#pragma once

#include <cstdio>

#include "report/progress.h"
#include "run/train.h"

namespace signvote::cli {

inline constexpr int kInterrupted = 130;  // the exit code that a shell reports for Ctrl-C

// Both make the first Ctrl-C or SIGTERM a request to stop; a second one ends the program at once.

/// Hooks that show the progress on stderr. They must not outlive this.
class ShownProgress {
 public:
  TrainHooks hooks();

 private:
  Progress progress_{stderr};
};

/// Hooks that log to stderr, each line with its time. Nobody who logs waits for a reader: see line_queue.h.
TrainHooks logging_hooks();

}  // namespace signvote::cli
