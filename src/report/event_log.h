// Event files that TensorBoard shows (https://www.tensorflow.org/tensorboard), with scalars. A file is a
// sequence of records in TensorFlow's format TFRecord, each of which holds an Event of event.proto:
//
//   8 bytes   length of the event, little-endian, as the next numbers are
//   4 bytes   masked CRC32C of these 8 bytes
//   length    the event
//   4 bytes   masked CRC32C of the event
//
// where masked(c) = ((c >> 15) | (c << 17)) + 0xa282ead8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"

namespace signvote {

class EventLog {
 public:
  /// Begins a new file in `folder`, after those that are there, which it reads. Of them a damaged or cut-off
  /// rest, as a crash may leave it, counts as not written.
  explicit EventLog(const std::filesystem::path& folder);

  /// The last step in all files, those of earlier runs of the program included; 0 if there is none.
  std::uint64_t last_step() const { return last_step_; }

  /// Adds scalars of a step, unless that step or a later one has some already. `wall_time` is in seconds
  /// since 1970.
  void add(std::uint64_t step, double wall_time, const std::vector<std::pair<std::string, double>>& scalars);

 private:
  std::uint64_t last_step_ = 0;
  std::filesystem::path file_;
  std::optional<DurableLog> log_;  // none: nothing to be written yet
};

/// A record with these bytes.
std::vector<std::byte> event_record(std::span<const std::byte> event);

}  // namespace signvote
