#include "report/attendance.h"

namespace signvote {

void Attendance::change(std::uint32_t worker, const auto& how) {
  const std::lock_guard lock(mutex_);
  Seat& seat = now_.seats.at(worker);
  how(seat);
  seat.seen = std::chrono::system_clock::now();
}

void Attendance::begin(const std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  now_.seats.assign(names.size(), {});
  for (std::size_t m = 0; m < names.size(); ++m) now_.seats[m].name = names[m];
  now_.opened = std::chrono::system_clock::now();
}

void Attendance::joined(std::uint32_t worker, const std::string& name) {
  change(worker, [&](Seat& seat) {
    if (seat.name != name) seat.wrong_model = false;
    seat.name = name;
    seat.connected = true;
  });
}

void Attendance::left(std::uint32_t worker) {
  change(worker, [](Seat& seat) { seat.connected = false; });
}

void Attendance::answered(std::uint32_t worker) {
  change(worker, [](Seat& seat) { seat.answered = true; });
}

void Attendance::model_compared(std::uint32_t worker, bool right) {
  change(worker, [right](Seat& seat) { seat.wrong_model = !right; });
}

void Attendance::round_opened() {
  const std::lock_guard lock(mutex_);
  for (Seat& seat : now_.seats) seat.answered = false;
  now_.opened = std::chrono::system_clock::now();
}

Attendance::Now Attendance::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

}  // namespace signvote
