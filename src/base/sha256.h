// SHA-256 of bytes, as lower-case hexadecimal.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace signvote {

std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace signvote
