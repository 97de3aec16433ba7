#include "run/table.h"

#include <fmt/format.h>

#include "base/files.h"
#include "base/thread_pool.h"
#include "cli/compute/commands.h"
#include "cli/compute/hooks.h"
#include "cli/launcher.h"
#include "learn/dataset.h"
#include "run/decoding.h"

namespace signvote::cli {
namespace {

bool run_decoding(const TableCommand& command, const TrainHooks& hooks) {
  ThreadPool pool(command.base.thread_count());
  DecodingOptions options;
  options.seed = command.base.seed;
  const auto show = [&hooks](const std::string& channels, std::uint64_t round, std::uint64_t rounds) {
    ProgressState state;
    state.label = channels;
    state.done = round;
    state.total = rounds;
    hooks.progress(state);
    return !hooks.stop_requested();
  };
  const std::vector<DecodingResult> results = measure_decoding(options, pool.parallel_for(), show);
  if (results.empty()) return false;
  write_decoding(results, options, command.out);
  return true;
}

}  // namespace

int run_table(const TableCommand& command) {
  bool finished = false;
  {
    ShownProgress progress;
    finished = command.plan.rows.empty()
                   ? run_decoding(command, progress.hooks())
                   : reproduce_table({command.plan, command.base, command.seeds, command.out},
                                     command.base.load_data(), progress.hooks());
  }
  if (!finished) {
    fmt::print(stderr, "stopped; what is finished is kept; go on with: {}\n", typed_command());
    return kInterrupted;
  }
  fmt::print("{}\nnumbers  {}\n", read_text_file(command.out / "table.md"),
             (command.out / "table.csv").string());
  return 0;
}

}  // namespace signvote::cli
