// The headers of ballots and verdicts, and what is checked of them; docs/wire_format.md is the
// specification. body.cpp has what follows a header.
#include "signvote/wire.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "ballot/body.h"

namespace signvote {
namespace {

constexpr std::uint16_t kVersion = 1;
constexpr std::array<char, 4> kMagic = {'S', 'G', 'N', 'V'};

struct WireHeader {
  std::array<char, 4> magic = kMagic;
  std::uint16_t version = kVersion;
  MessageKind kind{};
  Codec codec{};
  std::uint64_t run_id = 0;
  std::uint64_t round = 0;
  std::uint32_t worker = 0;
  MaskEncoding mask_encoding = MaskEncoding::none;
  std::uint64_t size = 0;
  std::uint64_t mask_bytes = 0;
  std::uint64_t body_bytes = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(WireHeader) == kHeaderBytes && std::has_unique_object_representations_v<WireHeader>);
static_assert(offsetof(WireHeader, checksum) + sizeof(std::uint64_t) == kHeaderBytes);

BodyLayout layout_of(const WireHeader& h) { return {h.codec, h.mask_encoding, h.mask_bytes, h.body_bytes}; }

std::uint64_t checksum_of(std::span<const std::byte> message) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  XXH3_64bits_update(state.get(), message.data(), offsetof(WireHeader, checksum));
  XXH3_64bits_update(state.get(), message.data() + kHeaderBytes, message.size() - kHeaderBytes);
  return XXH3_64bits_digest(state.get());
}

bool fail(std::string& problem, std::string text) {
  problem = std::move(text);
  return false;
}

const char* name(MessageKind kind) { return kind == MessageKind::ballot ? "ballot" : "verdict"; }

// Checks everything about a version 1 header that does not depend on the body's contents.
bool read_header(std::span<const std::byte> bytes, WireHeader& h, std::string& problem) {
  if (bytes.size() < kHeaderBytes)
    return fail(problem, fmt::format("message of {} bytes is shorter than its {}-byte header", bytes.size(),
                                     kHeaderBytes));
  std::memcpy(&h, bytes.data(), kHeaderBytes);
  if (h.magic != kMagic) return fail(problem, "not a signvote message: it does not begin with 'SGNV'");
  if (h.version != kVersion)
    return fail(problem, fmt::format("message of wire version {} where version {} is spoken; run the same "
                                     "signvote on both sides",
                                     h.version, kVersion));
  if (h.kind != MessageKind::ballot && h.kind != MessageKind::verdict)
    return fail(problem, fmt::format("message of unknown kind {}", static_cast<int>(h.kind)));
  if (h.codec != Codec::dense && h.codec != Codec::masked)
    return fail(problem, fmt::format("{} in unknown codec {}", name(h.kind), static_cast<int>(h.codec)));
  if (h.kind == MessageKind::verdict && h.worker != 0)
    return fail(problem, fmt::format("verdict that names worker {}; a verdict has none", h.worker));
  if (h.body_bytes != bytes.size() - kHeaderBytes)
    return fail(problem, fmt::format("{} whose body has {} bytes where its header says {}", name(h.kind),
                                     bytes.size() - kHeaderBytes, h.body_bytes));
  if (!is_possible(layout_of(h), h.size))
    return fail(problem,
                fmt::format("{} of {} coordinates cannot have codec {}, mask encoding {}, {} mask "
                            "bytes and {} body bytes",
                            name(h.kind), h.size, static_cast<int>(h.codec),
                            static_cast<std::uint32_t>(h.mask_encoding), h.mask_bytes, h.body_bytes));
  return true;
}

bool is_about(const WireHeader& h, const MessageHeader& expected, std::string& problem) {
  if (h.kind != expected.kind)
    return fail(problem, fmt::format("{} where a {} was expected", name(h.kind), name(expected.kind)));
  if (h.run_id != expected.run_id)
    return fail(problem, fmt::format("{} of run {:016x} where run {:016x} was expected", name(h.kind),
                                     h.run_id, expected.run_id));
  if (h.round != expected.round)
    return fail(problem, fmt::format("{} of round {} where round {} was expected", name(h.kind), h.round,
                                     expected.round));
  if (h.worker != expected.worker)
    return fail(problem, fmt::format("{} of worker {} where worker {} was expected", name(h.kind), h.worker,
                                     expected.worker));
  if (h.size != expected.size)
    return fail(problem, fmt::format("{} of {} coordinates where {} were expected", name(h.kind), h.size,
                                     expected.size));
  return true;
}

}  // namespace

void encode(const MessageHeader& header, SignView signs, std::vector<std::byte>& out) {
  assert(header.size == signs.size());
  assert(header.kind == MessageKind::ballot || header.worker == 0);
  out.resize(std::max(out.size(), kHeaderBytes));
  const BodyLayout layout = write_body(signs, out, kHeaderBytes);
  WireHeader h{.kind = header.kind,
               .codec = layout.codec,
               .run_id = header.run_id,
               .round = header.round,
               .worker = header.worker,
               .mask_encoding = layout.mask_encoding,
               .size = header.size,
               .mask_bytes = layout.mask_bytes,
               .body_bytes = layout.bytes};
  std::memcpy(out.data(), &h, kHeaderBytes);
  h.checksum = checksum_of(out);
  std::memcpy(out.data(), &h, kHeaderBytes);
}

bool decode_header(std::span<const std::byte> bytes, MessageHeader& header, std::string& problem) {
  WireHeader h;
  if (!read_header(bytes, h, problem)) return false;
  header = {.kind = h.kind, .run_id = h.run_id, .round = h.round, .worker = h.worker, .size = h.size};
  return true;
}

bool decode(std::span<const std::byte> bytes, const MessageHeader& expected, SignVector& signs,
            std::string& problem) {
  WireHeader h;
  if (!read_header(bytes, h, problem) || !is_about(h, expected, problem)) return false;
  if (h.checksum != checksum_of(bytes))
    return fail(problem, fmt::format("{} damaged on the way: its checksum does not match", name(h.kind)));
  if (signs.size() != h.size) signs.reset(h.size);
  return read_body(layout_of(h), bytes.subspan(kHeaderBytes), signs, problem);
}

}  // namespace signvote
