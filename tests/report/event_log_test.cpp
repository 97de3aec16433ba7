// Event files: their bytes, and what a log makes of those that are there.
#include "report/event_log.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <set>

#include "temporary_folder.h"

namespace signvote {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void write(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::size_t bytes_in(const std::filesystem::path& folder) {
  std::size_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) sum += entry.file_size();
  return sum;
}

TEST(EventLog, a_record_has_the_check_sums_of_tensorflow) {
  const auto record = event_record(bytes_of("123456789"));
  ASSERT_EQ(record.size(), 12U + 9 + 4);
  std::uint32_t crc = 0;
  std::memcpy(&crc, record.data() + 21, sizeof crc);
  const std::uint32_t published = 0xe3069283U;  // for these digits
  EXPECT_EQ(crc, ((published >> 15) | (published << 17)) + 0xa282ead8U);
  // The first record of a file by TensorFlow itself is 24 bytes long and begins so.
  const auto head = event_record(std::vector<std::byte>(24));
  EXPECT_EQ(std::vector<std::byte>(head.begin(), head.begin() + 12),
            bytes_of(std::string_view("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12)));
}

TEST(EventLog, steps_are_not_written_again) {
  const TemporaryFolder folder;
  {
    EventLog log(folder / "tensorboard");
    EXPECT_EQ(log.last_step(), 0U);
    log.add(25, 1.0, {{"test/loss", 0.5}});
    log.add(50, 2.0, {{"test/loss", 0.25}});
  }
  const std::size_t before = bytes_in(folder / "tensorboard");
  EventLog log(folder / "tensorboard");
  EXPECT_EQ(log.last_step(), 50U);
  log.add(25, 3.0, {{"test/loss", 0.5}});
  log.add(50, 4.0, {{"test/loss", 0.25}});
  EXPECT_EQ(bytes_in(folder / "tensorboard"), before);
  log.add(75, 5.0, {{"test/loss", 0.125}});
  EXPECT_EQ(log.last_step(), 75U);
  EXPECT_GT(bytes_in(folder / "tensorboard"), before);
  EXPECT_EQ(EventLog(folder / "tensorboard").last_step(), 75U);
}

TEST(EventLog, a_damaged_rest_counts_as_not_written) {
  const TemporaryFolder folder;
  {
    EventLog log(folder / "whole");
    log.add(25, 1.0, {{"test/loss", 0.5}});
    log.add(50, 2.0, {{"test/loss", 0.25}});
  }
  const std::vector<std::byte> whole =
      read_file(std::filesystem::directory_iterator(folder / "whole")->path());
  const std::filesystem::path file = folder / "events.out.tfevents.0000000000.signvote";
  std::set<std::uint64_t> steps;
  for (std::size_t keep = 0; keep <= whole.size(); ++keep) {
    write(file, std::span(whole).first(keep));
    const std::uint64_t step = EventLog(folder.path()).last_step();
    EXPECT_GE(step, steps.empty() ? 0 : *steps.rbegin());
    steps.insert(step);
  }
  EXPECT_EQ(steps, (std::set<std::uint64_t>{0, 25, 50}));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::vector<std::byte> damaged = whole;
    damaged[at] ^= std::byte{0x10};
    write(file, damaged);
    EXPECT_LT(EventLog(folder.path()).last_step(), 50U) << at;
  }
}

}  // namespace
}  // namespace signvote
