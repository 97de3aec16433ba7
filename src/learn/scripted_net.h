// A network that a user brings: a TorchScript module, exported from Python by torch.jit.script or
// torch.jit.trace. Such a file is a program, so only one from somebody trusted may be loaded.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "learn/models.h"

namespace signvote {

/// The module in a file's bytes; errors call it `name`. Its parameters have the values of the file. Those
/// that need no gradient are not trained. Throws DataError if it is not TorchScript or damaged, or cannot be
/// trained: no parameters, other types than float32, parameters that overlap, BatchNorm or dropout that
/// cannot be turned off for testing.
std::shared_ptr<Net> load_scripted_net(std::span<const std::byte> file, const std::string& name);

}  // namespace signvote
