#include "learn/parameters_file.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/files.h"
#include "base/text.h"
#include "learn/npy.h"
#include "learn/save_state_dict.h"
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

std::vector<std::pair<std::string, std::size_t>> ParametersFile::layers() const {
  if (is_npy()) return {{"parameters", values.size()}};
  std::vector<std::pair<std::string, std::size_t>> result;
  for (const Tensor& tensor : tensors)
    result.emplace_back(tensor.name, std::reduce(tensor.shape.begin(), tensor.shape.end(), std::size_t{1},
                                                 std::multiplies{}));
  return result;
}

ParametersFile read_parameters(std::span<const std::byte> file, const std::filesystem::path& name) {
  ParametersFile result;
  try {
    result = name.extension() == ".npy" ? from_npy(file) : from_state_dict(file);
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

void save_parameters(const ParametersFile& parameters, const std::filesystem::path& path) {
  if (parameters.is_npy()) return write_file_atomically(path, write_npy(parameters.values, parameters.shape));
  c10::Dict<std::string, torch::Tensor> state;
  std::span<const float> rest = parameters.values;
  for (const ParametersFile::Tensor& tensor : parameters.tensors) {
    const torch::Tensor copy = torch::empty(tensor.shape);
    const auto count = static_cast<std::size_t>(copy.numel());
    std::ranges::copy(rest.first(count), copy.data_ptr<float>());
    rest = rest.subspan(count);
    state.insert(tensor.name, copy);
  }
  save_state_dict(state, path);
}

}  // namespace signvote
