#include <fmt/format.h>

#include "cli/compute/commands.h"
#include "run/past_model.h"

namespace signvote::cli {

int run_model(const ModelCommand& command) {
  const ModelFile file = write_past_model(command.config, command.journal, command.round, command.out);
  fmt::print("{}: the model after round {}\nmodel sha256    {}\n", command.out.string(), file.round,
             file.model_sha256);
  return 0;
}

}  // namespace signvote::cli
