#include "base/line_queue.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace signvote {
namespace {

constexpr double kLastSeconds = 2;
constexpr int kPollMilliseconds = 50;

}  // namespace

LineQueue::LineQueue(Write write, std::function<std::string(std::uint64_t)> lost, std::size_t most)
    : write_(std::move(write)), tell_lost_(std::move(lost)), most_(most), thread_([this] { run(); }) {}

LineQueue::~LineQueue() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void LineQueue::push(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    if (lines_.size() >= most_) {
      ++lost_;
      return;
    }
    lines_.push_back(std::move(line));
  }
  changed_.notify_one();
}

void LineQueue::run() {
  Clock::time_point ended{};  // when the end was first seen
  const auto hurry = [&] {
    const std::lock_guard lock(mutex_);
    if (!ending_) return false;
    if (ended == Clock::time_point{}) ended = Clock::now();
    return seconds_since(ended) > kLastSeconds;
  };
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !lines_.empty(); });
    if (lines_.empty()) return;
    std::string text;
    if (const std::uint64_t lost = std::exchange(lost_, 0)) text = tell_lost_(lost);
    if (text.empty()) {
      text = std::move(lines_.front());
      lines_.pop_front();
    }
    lock.unlock();
    write_(text, hurry);
    if (hurry()) return;
    lock.lock();
  }
}

void write_patiently(int file, const std::string& text, const std::function<bool()>& hurry) {
  for (std::string_view left = text; !left.empty();) {
    pollfd ready{file, POLLOUT, 0};
    if (::poll(&ready, 1, kPollMilliseconds) <= 0) {
      if (hurry()) return;
      continue;
    }
    // A pipe that is ready takes this much without making us wait.
    const ssize_t count = ::write(file, left.data(), std::min<std::size_t>(left.size(), PIPE_BUF));
    if (count >= 0)
      left.remove_prefix(static_cast<std::size_t>(count));
    else if (errno != EINTR && errno != EAGAIN)
      return;  // nobody will ever read it
    else if (hurry())
      return;
  }
}

}  // namespace signvote
