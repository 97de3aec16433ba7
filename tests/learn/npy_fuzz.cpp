// Fuzzes the reader of .npy files with libFuzzer: whatever it takes is an array that lies within the file and
// is as large as its shape says, and its elements can be read.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "learn/npy.h"
#include "signvote/error.h"

namespace {

void require(bool held) {
  if (!held) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace signvote;
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  try {
    const NpyArray array = read_npy(file);
    require(array.data.data() >= file.data() && array.data.data() + array.data.size() == file.data() + size);
    require(!array.shape.empty() && elements_of(array.shape) * array.width() == array.data.size());
    const std::size_t read = array.is_whole() ? whole_numbers(array).size() : floats(array).size();
    require(read == elements_of(array.shape));
  } catch (const DataError& error) {
    const std::string reason = error.what();
    require(!reason.empty() && reason.find('\n') == std::string::npos);
  }
  return 0;
}
