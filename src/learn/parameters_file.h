// The parameters of a model in a file, for a run that knows no network: a .npy array, or a state dict. The
// bytes are foreign: everything is checked before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
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

  bool is_npy() const { return tensors.empty(); }

  /// The tensors and how many values each has, in order; of an array, one.
  std::vector<std::pair<std::string, std::size_t>> layers() const;
};

/// `name` tells the format by its ending, and names the file in errors. Throws DataError if the bytes are
/// damaged, or are not all finite float32.
ParametersFile read_parameters(std::span<const std::byte> file, const std::filesystem::path& name);

/// Writes the whole file or nothing, in the form in which it was read.
void save_parameters(const ParametersFile& parameters, const std::filesystem::path& path);

}  // namespace signvote
