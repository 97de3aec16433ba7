// The networks that models.cpp can make, for those who check a name and need no torch.
#pragma once

#include <array>

namespace signvote {

inline constexpr std::array<const char*, 3> kModelNames = {"cnn", "resnet20", "resnet56"};

}  // namespace signvote
