#include "report/event_log.h"

#include <fmt/format.h>
#include <isa-l/crc.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "report/event.pb.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using tensorboard::Event;

static_assert(std::endian::native == std::endian::little, "records are little-endian");

constexpr std::size_t kBefore = 12, kAfter = 4;  // bytes of a record around its event

std::uint32_t masked_crc(std::span<const std::byte> bytes) {
  // isa-l takes no pointer to const, but changes nothing.
  auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
  const std::uint32_t crc = ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~0U);
  return std::rotr(crc, 15) + 0xa282ead8U;
}

template <class Number>
Number number_at(std::span<const std::byte> bytes, std::size_t at) {
  Number number{};
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// The last step among the whole records of a file.
std::uint64_t last_step_in(std::span<const std::byte> rest) {
  std::uint64_t last = 0;
  while (rest.size() >= kBefore + kAfter) {
    const auto length = number_at<std::uint64_t>(rest, 0);
    if (number_at<std::uint32_t>(rest, 8) != masked_crc(rest.first(8)) ||
        length > rest.size() - kBefore - kAfter)
      break;
    const auto bytes = rest.subspan(kBefore, length);
    Event event;
    if (number_at<std::uint32_t>(rest, kBefore + length) != masked_crc(bytes) ||
        !event.ParseFromArray(bytes.data(), static_cast<int>(length)))
      break;
    last = std::max(last, static_cast<std::uint64_t>(std::max<std::int64_t>(event.step(), 0)));
    rest = rest.subspan(kBefore + length + kAfter);
  }
  return last;
}

std::vector<std::byte> record_of(const Event& event) {
  const std::string bytes = event.SerializeAsString();
  return event_record(std::as_bytes(std::span(bytes)));
}

}  // namespace

std::vector<std::byte> event_record(std::span<const std::byte> event) {
  std::vector<std::byte> record(kBefore + event.size() + kAfter);
  const std::uint64_t length = event.size();
  std::memcpy(record.data(), &length, sizeof length);
  const std::uint32_t length_crc = masked_crc(std::span(record).first(sizeof length));
  std::memcpy(record.data() + sizeof length, &length_crc, sizeof length_crc);
  std::ranges::copy(event, record.begin() + kBefore);
  const std::uint32_t crc = masked_crc(event);
  std::memcpy(record.data() + kBefore + length, &crc, sizeof crc);
  return record;
}

EventLog::EventLog(const fs::path& folder) {
  make_folder(folder);
  std::size_t files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file() || !entry.path().filename().string().starts_with("events.out.tfevents."))
      continue;
    ++files;
    last_step_ = std::max(last_step_, last_step_in(read_file(entry.path())));
  }
  // TensorBoard reads the files in the order of their names.
  while (file_.empty() || fs::exists(file_))
    file_ = folder / fmt::format("events.out.tfevents.{:010}.signvote", files++);
}

void EventLog::add(std::uint64_t step, double wall_time,
                   const std::vector<std::pair<std::string, double>>& scalars) {
  if (step <= last_step_) return;
  Event event;
  event.set_wall_time(wall_time);
  if (!log_) {
    event.set_file_version("brain.Event:2");
    const std::vector<std::byte> head = record_of(event);
    write_file_atomically(file_, head);
    log_.emplace(file_, head.size());
  }
  event.set_step(static_cast<std::int64_t>(step));
  for (const auto& [tag, value] : scalars) {
    auto* added = event.mutable_summary()->add_value();
    added->set_tag(tag);
    added->set_simple_value(static_cast<float>(value));
  }
  log_->write(record_of(event));
  last_step_ = step;
}

}  // namespace signvote
