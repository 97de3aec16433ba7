// A run between two rounds, as one file: the model, and with it the tally and notes. A journal's
// snapshot-S.bin and base-R.bin are such files, and so is the checkpoint.bin of a run without a journal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace signvote {

struct State {
  std::uint64_t round = 0;  // rounds decided before it
  std::string notes;        // the writer's own, JSON
  std::vector<float> parameters;
  std::vector<std::byte> tally;
};

enum class StateKind : std::uint32_t { base = 1, snapshot = 2 };

/// All or nothing, and durable.
void write_state(const std::filesystem::path& path, StateKind kind, const State& state);

/// A snapshot's parameters as they lie on the disk; stays readable after the snapshot was replaced.
class SnapshotReader {
 public:
  virtual ~SnapshotReader() = default;
  virtual std::uint64_t round() const = 0;
  virtual std::uint64_t parameter_bytes() const = 0;
  /// Fills `out` from byte `offset` of the parameters on. Throws DataError.
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

/// Holds the file open, so that it stays readable when its name is gone. From any thread. Everything
/// throws DataError that names the file.
class StateFile : public SnapshotReader {
 public:
  /// Checks its header alone: that it is what its name says, and as long as it should be. `round` is
  /// the one that the name tells, if it tells one.
  StateFile(const std::filesystem::path& path, StateKind kind, std::optional<std::uint64_t> round);

  /// Reads all of it once, by pieces.
  void check() const;
  /// These check what they read.
  std::vector<float> parameters() const;
  State load() const;

  std::uint64_t round() const override { return header_.round; }
  std::uint64_t parameter_bytes() const override { return header_.parameter_bytes; }
  void read(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  friend void write_state(const std::filesystem::path&, StateKind, const State&);

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
