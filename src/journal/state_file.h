// snapshot-S.bin and base-R.bin: the model after some rounds, and with a snapshot the tally and notes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "journal/journal.h"

namespace signvote {

enum class StateKind : std::uint32_t { base = 1, snapshot = 2 };

/// All or nothing, and durable.
void write_state(const std::filesystem::path& path, StateKind kind, const JournalSnapshot& state);

/// Holds the file open, so that it stays readable when its name is gone. From any thread. Everything
/// throws DataError that names the file.
class StateFile : public SnapshotReader {
 public:
  /// Checks its header alone: that it is what its name says, and as long as it should be.
  StateFile(const std::filesystem::path& path, StateKind kind, std::uint64_t round);

  /// Reads all of it once, by pieces.
  void check() const;
  /// These check what they read.
  std::vector<float> parameters() const;
  JournalSnapshot load() const;

  std::uint64_t round() const override { return header_.round; }
  std::uint64_t parameter_bytes() const override { return header_.parameter_bytes; }
  void read(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  friend void write_state(const std::filesystem::path&, StateKind, const JournalSnapshot&);

  struct Header {
    char magic[8] = {'S', 'V', 'S', 'T', 'A', 'T', 'E', '1'};
    StateKind kind{};
    std::uint32_t zero = 0;
    std::uint64_t round = 0;
    std::uint64_t parameter_bytes = 0;  // the parts, in this order
    std::uint64_t tally_bytes = 0;
    std::uint64_t notes_bytes = 0;
    std::uint64_t parameter_checksum = 0;
    std::uint64_t tally_checksum = 0;
    std::uint64_t notes_checksum = 0;
    std::uint64_t header_checksum = 0;
  };

  [[noreturn]] void refuse(std::string_view what) const;
  void read_part(std::uint64_t offset, std::uint64_t checksum, std::span<std::byte> out) const;

  InputFile file_;
  Header header_;
};

}  // namespace signvote
