// Who joined, who left, who was refused and who proved that rounds were lost, when and why: one JSON object a
// line, in a file of its own. When the file has grown to its largest size it becomes FILE.1, which replaces
// the one before, and a new file is begun. A thread of its own writes it, so that no session and no round
// waits for the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/files.h"
#include "base/line_queue.h"
#include "certs/certificates.h"

namespace signvote {

class AuditLog {
 public:
  /// Appends to what is there. Throws DataError if it cannot be opened. Later `log` is told if it cannot be
  /// written, once until it can again, from another thread.
  AuditLog(std::filesystem::path file, std::function<void(const std::string&)> log,
           std::size_t largest_bytes = std::size_t{16} << 20);

  void joined(const Identity& who, std::uint32_t worker, const std::string& peer, const std::string& program);
  void left(const Identity& who, std::uint32_t worker);
  /// A worker held the model after `held` rounds, but the server knows only `known`.
  void rounds_lost(const Identity& who, std::uint32_t worker, std::uint64_t held, std::uint64_t known);
  void refused(const std::string& peer, const std::string& reason, const std::string& text);
  /// So many others were refused for this reason, which have no lines.
  void more_refused(const std::string& reason, std::uint64_t count);

 private:
  void open();
  void append(const std::string& line);

  const std::filesystem::path file_;
  const std::function<void(const std::string&)> log_;
  const std::size_t largest_;
  // Only the queue's thread uses these after the start.
  std::optional<LineLog> lines_;  // open all the time, because an attack may use up all other files
  bool failed_ = false;           // the last line could not be written
  LineQueue queue_;               // last, because its thread uses the others
};

}  // namespace signvote
