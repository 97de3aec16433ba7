// Fuzzes the allow-list with libFuzzer: whatever is taken gives each name one worker and each worker at most
// one name.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "engine/grpc/allow_list.h"
#include "signvote/error.h"

namespace {

void require(bool held) {
  if (!held) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace signvote;
  constexpr std::uint32_t kWorkers = 15;
  static const int file =
      ::memfd_create("allow.toml", 0);  // in memory, because a list is always read from a file
  require(file >= 0 && ::ftruncate(file, 0) == 0 &&
          ::pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  try {
    const AllowList list("/proc/self/fd/" + std::to_string(file), kWorkers);
    require(!list.workers().empty());
    std::set<std::uint32_t> given;
    for (const auto& [name, allowed] : list.workers())
      require(allowed.worker < kWorkers && given.insert(allowed.worker).second &&
              list.find(name) == allowed.worker);
  } catch (const ConfigError& error) {
    require(*error.what() != 0);
  }
  return 0;
}
