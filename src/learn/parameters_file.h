// The parameters of a model in a file, for a run that knows no network: a .npy array, or a state dict. Does
// not use torch. The bytes are foreign: everything is checked before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "learn/dataset.h"

namespace signvote {

struct ParametersFile {
  /// A part of the parameters that has a name of its own.
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
  };

  std::vector<float> values;    // all, one after the other
  Shape shape;                  // of the .npy array
  std::vector<Tensor> tensors;  // of the state dict, in the order of their names; empty: it is a .npy array
};

/// True if the name is that of a .npy array, else it is a state dict's.
bool is_npy_name(const std::filesystem::path& file);

/// `name` tells the format, and names the file in errors. Throws DataError if the bytes are damaged, or are
/// not all finite float32.
ParametersFile read_parameters(std::span<const std::byte> file, const std::filesystem::path& name);

}  // namespace signvote
