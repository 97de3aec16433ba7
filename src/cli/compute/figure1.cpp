#include "run/figure1.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/compute/commands.h"
#include "cli/compute/hooks.h"
#include "cli/launcher.h"
#include "learn/dataset.h"
#include "run/run_files.h"

namespace signvote::cli {

int run_figure1(const Figure1Command& command) {
  const Dataset dataset = command.base.load_data();
  bool finished = false;
  {
    ShownProgress progress;
    finished = reproduce_figure1({command.base, command.panels, command.methods, command.seeds, command.out},
                                 dataset, progress.hooks());
  }
  if (!finished) {
    fmt::print(stderr, "stopped and saved; go on with: {}\n", typed_command());
    return kInterrupted;
  }
  fmt::print("{}\npicture  {}\nnumbers  {}\n", format_figure1(read_summary(command.out)),
             (command.out / "figure1.png").string(), (command.out / "figure1.csv").string());
  return 0;
}

}  // namespace signvote::cli
