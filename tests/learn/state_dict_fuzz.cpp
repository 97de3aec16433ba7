// Fuzzes the reader of model.pt with libFuzzer: whatever it takes is a tensor that lies within its storage
// and is as large as its shape says. The input is tried as a file, and as the pickle of a file with two
// storages, because a mutation hardly ever gets past a zip archive's checksums.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "learn/state_dict.h"
#include "signvote/error.h"

namespace {

using namespace signvote;

void require(bool held) {
  if (!held) std::abort();
}

void check(const StoredTensor& tensor, const ArchiveEntries& entries) {
  std::size_t bytes = bytes_of(tensor.type);
  for (const std::int64_t size : tensor.shape) bytes *= static_cast<std::size_t>(size);
  require(tensor.bytes.size() == bytes);
  bool inside = false;
  for (const auto& [entry, content] : entries)
    inside = inside || (tensor.bytes.data() >= content.data() &&
                        tensor.bytes.data() + bytes <= content.data() + content.size());
  require(inside);
}

template <class Try>
void refused_or_sound(const Try& attempt) {
  try {
    attempt();
  } catch (const DataError& error) {
    const std::string reason = error.what();
    require(!reason.empty() && reason.find('\n') == std::string::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  const auto try_entries = [](const ArchiveEntries& entries) {
    refused_or_sound([&] {
      for (const auto& [name, tensor] : read_state_dict(entries)) check(tensor, entries);
    });
    refused_or_sound([&] { check(read_tensor(entries), entries); });
  };
  refused_or_sound([&] { try_entries(read_archive(input)); });
  const ArchiveEntries entries{{"archive/data.pkl", {input.begin(), input.end()}},
                               {"archive/data/0", std::vector<std::byte>(24)},
                               {"archive/data/1", std::vector<std::byte>(16)}};
  try_entries(entries);
  return 0;
}
