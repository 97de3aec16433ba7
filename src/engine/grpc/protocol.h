// What both sides of the protocol agree on beside the messages of vote.proto.
#pragma once

#include <cstdint>

namespace signvote {

inline constexpr std::uint32_t kProtocol = 4;

/// The trailing metadata of a refusal, with its reason. It tells a refusal in the server's name from a
/// status that gRPC makes of a proxy's HTTP answer.
inline constexpr const char* kRefusalKey = "signvote-refusal";

}  // namespace signvote
