// A state dict as a file that every PyTorch loads, also the newest, which by default takes nothing but
// tensors and plain values (weights_only).
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <string>

namespace signvote {

/// REQUIRES: each tensor is contiguous and all of its storage, because the storage is what is saved. Writes
/// the whole file or nothing.
void save_state_dict(const c10::Dict<std::string, torch::Tensor>& state, const std::filesystem::path& path);

}  // namespace signvote
