// Lines that a thread of its own writes, so that whoever logs never waits for a reader or for a disk. At most
// so many lines wait; those that come then are lost, and counted.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace signvote {

class LineQueue {
 public:
  /// `write` writes one line and is called by one thread only. If it cannot be written for now, `write` tries
  /// again until `hurry()` is true, and then returns without. It must not throw.
  using Write = std::function<void(const std::string& line, const std::function<bool()>& hurry)>;
  /// `lost` makes the line that says how many were lost; it is written before the next one.
  LineQueue(Write write, std::function<std::string(std::uint64_t)> lost, std::size_t most = 1000);
  /// What waits has two seconds to be written.
  ~LineQueue();
  LineQueue(const LineQueue&) = delete;
  LineQueue& operator=(const LineQueue&) = delete;

  /// Never waits for `write`. Any thread may call it.
  void push(std::string line);

 private:
  void run();

  const Write write_;
  const std::function<std::string(std::uint64_t)> tell_lost_;
  const std::size_t most_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  std::uint64_t lost_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

/// Writes to a file descriptor as a LineQueue wants it: waits for as long as nobody reads it, but not once it
/// is to hurry.
void write_patiently(int file, const std::string& text, const std::function<bool()>& hurry);

}  // namespace signvote
