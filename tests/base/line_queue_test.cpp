#include "base/line_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <future>
#include <string>
#include <vector>

namespace signvote {
namespace {

std::string lost_line(std::uint64_t count) { return "lost " + std::to_string(count); }

TEST(LineQueue, writes_lines_in_order_and_all_of_them_before_it_ends) {
  std::vector<std::string> written;
  {
    LineQueue queue([&](const std::string& line, const auto&) { written.push_back(line); }, lost_line);
    for (int i = 0; i < 500; ++i) queue.push(std::to_string(i));
  }
  ASSERT_EQ(written.size(), 500U);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(written[static_cast<std::size_t>(i)], std::to_string(i));
}

TEST(LineQueue, never_makes_anybody_wait_and_tells_what_was_lost) {
  std::vector<std::string> written;
  std::promise<void> begun;
  std::promise<void> read;
  bool first = true;
  {
    LineQueue queue(
        [&](const std::string& line, const auto&) {
          if (std::exchange(first, false)) {
            begun.set_value();
            read.get_future().wait();
          }
          written.push_back(line);
        },
        lost_line, 3);
    queue.push("a");
    begun.get_future().wait();  // and is stuck
    for (const char* line : {"b", "c", "d", "e", "f"}) queue.push(line);
    read.set_value();
  }
  EXPECT_EQ(written, (std::vector<std::string>{"a", "lost 2", "b", "c", "d"}));
}

TEST(LineQueue, ends_though_nobody_reads) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const auto full = static_cast<std::size_t>(::fcntl(ends[1], F_GETPIPE_SZ));
  {
    LineQueue queue([&](const std::string& line,
                        const std::function<bool()>& hurry) { write_patiently(ends[1], line, hurry); },
                    lost_line);
    queue.push(std::string(2 * full, 'x'));
    queue.push("never written");
  }
  ::close(ends[1]);
  std::string received;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 0; (count = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    received.append(buffer.data(), static_cast<std::size_t>(count));
  ::close(ends[0]);
  EXPECT_EQ(received, std::string(full, 'x'));
}

}  // namespace
}  // namespace signvote
