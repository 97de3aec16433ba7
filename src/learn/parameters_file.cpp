#include "learn/parameters_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "learn/npy.h"
#include "learn/state_dict.h"
#include "signvote/error.h"

namespace signvote {
namespace {

void append_floats(std::span<const std::byte> bytes, std::vector<float>& values) {
  const std::size_t before = values.size();
  values.resize(before + bytes.size() / sizeof(float));
  std::memcpy(values.data() + before, bytes.data(), bytes.size());
}

ParametersFile from_npy(std::span<const std::byte> file) {
  const NpyArray array = read_npy(file);
  if (array.type != "<f4") throw DataError(fmt::format("has items of '{}', not float32", array.type));
  ParametersFile result;
  result.shape = array.shape;
  append_floats(array.data, result.values);
  return result;
}

ParametersFile from_state_dict(std::span<const std::byte> file) {
  const ArchiveEntries entries = read_archive(file);
  ParametersFile result;
  for (const auto& [name, tensor] : read_state_dict(entries)) {
    if (tensor.type != ElementType::float32)
      throw DataError(fmt::format("has '{}' of {}, not float32", printable(name, 60), name_of(tensor.type)));
    result.tensors.push_back({name, tensor.shape});
    append_floats(tensor.bytes, result.values);
  }
  if (result.values.empty()) throw DataError("has no parameters");
  return result;
}

}  // namespace

bool is_npy_name(const std::filesystem::path& file) { return file.extension() == ".npy"; }

ParametersFile read_parameters(std::span<const std::byte> file, const std::filesystem::path& name) {
  ParametersFile result;
  try {
    result = is_npy_name(name) ? from_npy(file) : from_state_dict(file);
  } catch (const DataError& error) {
    throw DataError(
        fmt::format("'{}' cannot be used as parameters: {}; take a .npy array of float32, or a plain dict of "
                    "contiguous float32 tensors saved by torch.save",
                    name.string(), error.what()));
  }
  const auto bad = std::ranges::find_if(result.values, [](float x) { return !std::isfinite(x); });
  if (bad != result.values.end())
    throw DataError(fmt::format("'{}' cannot be used as parameters: coordinate {} is NaN or infinite",
                                name.string(), bad - result.values.begin()));
  return result;
}

}  // namespace signvote
