#include "learn/save_state_dict.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <span>
#include <vector>

#include "base/files.h"

namespace signvote {

// Not torch::pickle_save, which tags the dict with its type: a function of torch that Python would have to
// call.
void save_state_dict(const c10::Dict<std::string, torch::Tensor>& state, const std::filesystem::path& path) {
  std::vector<char> pickle;
  torch::jit::Pickler pickler(
      [&](const char* bytes, std::size_t size) { pickle.insert(pickle.end(), bytes, bytes + size); }, nullptr,
      nullptr, nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(state);
  pickler.stop();

  std::vector<char> file;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* bytes, std::size_t size) {
    const char* begin = static_cast<const char*>(bytes);
    file.insert(file.end(), begin, begin + size);
    return size;
  });
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  for (std::size_t i = 0; i < pickler.tensorData().size(); ++i) {
    const auto tensor = torch::jit::getWriteableTensorData(pickler.tensorData()[i]);
    writer.writeRecord("data/" + std::to_string(i), tensor.data(), tensor.sizeInBytes());
  }
  writer.writeEndOfFile();
  write_file_atomically(path, std::as_bytes(std::span(file)));
}

}  // namespace signvote
