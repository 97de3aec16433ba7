// The state of a run between two rounds in one file: the model, the tally and notes. A journal's
// snapshot-S.bin and base-R.bin are such files, and so is the checkpoint.bin of a run without a journal. A
// worker's memory is one too, with what it remembers in the model's place.
#pragma once

#include <atomic>
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
  std::uint64_t round = 0;  // the number of rounds decided before it
  std::string notes;        // JSON that only the writer of the state understands
  std::vector<float> parameters;
  std::vector<std::byte> tally;
};

enum class StateKind : std::uint32_t { base = 1, snapshot = 2, memory = 3 };

/// Writes the whole file or nothing, readable only by its owner. It is durable when this returns.
void write_state(const std::filesystem::path& path, StateKind kind, const State& state);

/// Reads a snapshot's parameters from the disk, even after the snapshot was replaced.
class SnapshotReader {
 public:
  virtual ~SnapshotReader() = default;
  virtual std::uint64_t round() const = 0;
  virtual std::uint64_t parameter_bytes() const = 0;
  /// XXH3 of the parameters when they were written.
  virtual std::uint64_t parameter_checksum() const = 0;
  /// Fills `out` from byte `offset` of the parameters on, with bytes that are as they were written: they are
  /// checked. Throws DataError.
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

/// Keeps the file open, so that it can be read even after it was removed. Const members may be called from
/// any thread. All members throw DataError that names the file.
class StateFile : public SnapshotReader {
 public:
  /// Checks only the header: the kind, the length, and the round if `round` is given (from the file's
  /// name).
  StateFile(const std::filesystem::path& path, StateKind kind, std::optional<std::uint64_t> round);

  /// Reads the whole file, or the parameters alone, and checks it. After either, read() may be called from
  /// any thread: the checksums of the parameters' pieces are then known, which the file does not have.
  void check();
  void check_parameters();
  /// These check what they read.
  std::vector<float> parameters() const;
  State load() const;
  /// True once read() has met something wrong.
  bool damaged() const { return damaged_; }

  std::uint64_t round() const override { return header_.round; }
  std::uint64_t parameter_bytes() const override { return header_.parameter_bytes; }
  std::uint64_t parameter_checksum() const override { return header_.parameter_checksum; }
  void read(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  friend void write_state(const std::filesystem::path&, StateKind, const State&);

  struct Header {
    char magic[8] = {'S', 'V', 'S', 'T', 'A', 'T', 'E', '1'};
    StateKind kind{};
    std::uint32_t zero = 0;
    std::uint64_t round = 0;
    std::uint64_t parameter_bytes = 0;  // the three parts follow the header in this order
    std::uint64_t tally_bytes = 0;
    std::uint64_t notes_bytes = 0;
    std::uint64_t parameter_checksum = 0;
    std::uint64_t tally_checksum = 0;
    std::uint64_t notes_checksum = 0;
    std::uint64_t header_checksum = 0;
  };

  [[noreturn]] void refuse(std::string_view what) const;
  [[noreturn]] void refuse_part(std::string_view name, std::uint64_t offset) const;
  void read_part(std::uint64_t offset, std::uint64_t checksum, std::span<std::byte> out) const;

  InputFile file_;
  Header header_;
  std::vector<std::uint64_t> pieces_;  // the checksum of each piece of the parameters
  mutable std::atomic<bool> damaged_ = false;
};

}  // namespace signvote
