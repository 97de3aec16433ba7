// Fuzzes a run's settings with libFuzzer: a worker reads those of its server. Whatever is taken comes back
// from its config.toml with the same identity.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "run/config.h"
#include "signvote/error.h"

namespace {

void require(bool held) {
  if (!held) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace signvote;
  const std::string text(reinterpret_cast<const char*>(data), size);
  TrainConfig config;
  try {
    parse_config(text, "config.toml", config);
    resolve(config);
  } catch (const ConfigError& error) {
    require(*error.what() != 0);
    return 0;
  }
  require(config.batch_sizes().size() == *config.workers);
  TrainConfig again;
  parse_config(write_config(config), "config.toml", again);
  resolve(again);
  require(again.run_id() == config.run_id());
  return 0;
}
