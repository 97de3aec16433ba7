// The names of the networks in models.cpp, for code that checks a name without using torch.
#pragma once

#include <array>

namespace signvote {

inline constexpr std::array<const char*, 3> kModelNames = {"cnn", "resnet20", "resnet56"};

}  // namespace signvote
