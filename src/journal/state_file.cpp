// Every part has its own checksum in the header, and so has the header. So a joining worker can be given
// the parameters without reading what follows them.
#include "journal/state_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

#include "signvote/error.h"

namespace signvote {
namespace {

static_assert(std::endian::native == std::endian::little, "states are copied as they lie in memory");

constexpr std::size_t kPiece = 1 << 20;  // bytes; as much as a session is sent at a time

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

/// Reads in pieces. `pieces` gets their own checksums, too.
std::uint64_t checksum_of(const InputFile& file, std::uint64_t offset, std::uint64_t bytes,
                          std::vector<std::uint64_t>* pieces = nullptr) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<std::byte> piece(std::min<std::uint64_t>(bytes, kPiece));
  while (bytes > 0) {
    piece.resize(std::min<std::uint64_t>(bytes, kPiece));
    file.read(offset, piece);
    XXH3_64bits_update(state.get(), piece.data(), piece.size());
    if (pieces != nullptr) pieces->push_back(checksum_of(piece));
    offset += piece.size();
    bytes -= piece.size();
  }
  return XXH3_64bits_digest(state.get());
}

}  // namespace

void write_state(const std::filesystem::path& path, StateKind kind, const State& state) {
  using Header = StateFile::Header;
  static_assert(sizeof(Header) == 80 && std::has_unique_object_representations_v<Header>);
  const auto parameters = std::as_bytes(std::span(state.parameters));
  const auto notes = std::as_bytes(std::span(state.notes));
  Header header;
  header.kind = kind;
  header.round = state.round;
  header.parameter_bytes = parameters.size();
  header.tally_bytes = state.tally.size();
  header.notes_bytes = notes.size();
  header.parameter_checksum = checksum_of(parameters);
  header.tally_checksum = checksum_of(state.tally);
  header.notes_checksum = checksum_of(notes);
  header.header_checksum = XXH3_64bits(&header, offsetof(Header, header_checksum));
  AtomicFile file(path, Access::owner);
  file.write(std::as_bytes(std::span(&header, 1)));
  file.write(parameters);
  file.write(state.tally);
  file.write(notes);
  file.commit();
}

StateFile::StateFile(const std::filesystem::path& path, StateKind kind, std::optional<std::uint64_t> round)
    : file_(path) {
  if (file_.bytes() < sizeof header_) refuse("is cut short");
  file_.read(0, std::as_writable_bytes(std::span(&header_, 1)));
  if (std::memcmp(header_.magic, Header{}.magic, sizeof header_.magic) != 0)
    refuse("is damaged at byte 0, or not of this version of signvote");
  if (header_.header_checksum != XXH3_64bits(&header_, offsetof(Header, header_checksum)))
    refuse("is damaged: the checksum of its header (bytes 0 to 79) is wrong");
  if (header_.kind != kind || header_.round != round.value_or(header_.round))
    refuse(fmt::format("is not what its name says: it is a {} of round {}",
                       header_.kind == StateKind::base     ? "base"
                       : header_.kind == StateKind::memory ? "worker's memory"
                                                           : "snapshot",
                       header_.round));
  std::uint64_t left = file_.bytes() - sizeof header_;
  for (const std::uint64_t part : {header_.parameter_bytes, header_.tally_bytes, header_.notes_bytes}) {
    if (part > left) refuse("is cut short");
    left -= part;
  }
  if (left != 0) refuse(fmt::format("has {} bytes too many at its end", left));
  if (header_.parameter_bytes % sizeof(float) != 0) refuse("has parameters that are not whole numbers");
}

void StateFile::refuse(std::string_view what) const {
  throw DataError(fmt::format("'{}' {}; put it back from a backup", file_.path().string(), what));
}

void StateFile::check_parameters() {
  pieces_.clear();
  if (checksum_of(file_, sizeof header_, header_.parameter_bytes, &pieces_) != header_.parameter_checksum)
    refuse_part("parameters", sizeof header_);
}

void StateFile::check() {
  check_parameters();
  const std::uint64_t tally = sizeof header_ + header_.parameter_bytes, notes = tally + header_.tally_bytes;
  if (checksum_of(file_, tally, header_.tally_bytes) != header_.tally_checksum) refuse_part("tally", tally);
  if (checksum_of(file_, notes, header_.notes_bytes) != header_.notes_checksum) refuse_part("notes", notes);
}

void StateFile::refuse_part(std::string_view name, std::uint64_t offset) const {
  refuse(fmt::format("is damaged: the checksum of its {} (from byte {} on) is wrong", name, offset));
}

void StateFile::read_part(std::uint64_t offset, std::uint64_t checksum, std::span<std::byte> out) const {
  file_.read(offset, out);
  if (checksum_of(out) != checksum)
    refuse(
        fmt::format("is damaged: the checksum of the {} bytes from byte {} on is wrong", out.size(), offset));
}

std::vector<float> StateFile::parameters() const {
  std::vector<float> parameters(header_.parameter_bytes / sizeof(float));
  read_part(sizeof header_, header_.parameter_checksum, std::as_writable_bytes(std::span(parameters)));
  return parameters;
}

State StateFile::load() const {
  State state;
  state.round = header_.round;
  state.parameters = parameters();
  state.tally.resize(header_.tally_bytes);
  state.notes.resize(header_.notes_bytes);
  const std::uint64_t tally = sizeof header_ + header_.parameter_bytes;
  read_part(tally, header_.tally_checksum, state.tally);
  read_part(tally + header_.tally_bytes, header_.notes_checksum,
            std::as_writable_bytes(std::span(state.notes)));
  return state;
}

void StateFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  assert(offset <= header_.parameter_bytes && out.size() <= header_.parameter_bytes - offset);
  std::vector<std::byte> piece;
  while (!out.empty()) {
    const std::uint64_t begin = offset / kPiece * kPiece;
    piece.resize(std::min<std::uint64_t>(kPiece, header_.parameter_bytes - begin));
    try {
      file_.read(sizeof header_ + begin, piece);
      if (checksum_of(piece) != pieces_.at(begin / kPiece))
        throw DataError(fmt::format(
            "'{}' was damaged between bytes {} and {} since it was checked; check the disk (the next "
            "snapshot "
            "replaces it)",
            file_.path().string(), sizeof header_ + begin, sizeof header_ + begin + piece.size()));
    } catch (const DataError&) {
      damaged_ = true;
      throw;
    }
    const auto wanted = std::span(piece).subspan(offset - begin);
    const std::size_t count = std::min(out.size(), wanted.size());
    std::memcpy(out.data(), wanted.data(), count);
    out = out.subspan(count);
    offset += count;
  }
}

}  // namespace signvote
