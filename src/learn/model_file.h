// model.pt: a state dict as Python's torch.load reads it.
#pragma once

#include <filesystem>
#include <string>

#include "learn/models.h"

namespace signvote {

/// Writes parameters and buffers (BatchNorm's statistics) by name. Writes the whole file or nothing.
void save_model(Net& net, const std::filesystem::path& path);

/// Loads what save_model wrote. Throws DataError that names the file and the first tensor that is missing,
/// unknown, or of another shape.
void load_model(Net& net, const std::filesystem::path& path);

/// The model and the data set whose network fits the file. Throws DataError if none does.
struct ModelKind {
  std::string model;
  std::string dataset;
};
ModelKind identify_model(const std::filesystem::path& path);

}  // namespace signvote
