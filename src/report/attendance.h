// Who of a run's workers is there. The part of a program that hears of them says so, any other may read it.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace signvote {

class Attendance {
 public:
  using Time = std::chrono::system_clock::time_point;

  struct Seat {
    std::string name;            // whose it is; empty: nobody's yet
    bool connected = false;      // it has a session
    bool answered = false;       // in the open round
    bool wrong_model = false;    // it had another model when that was last compared
    std::optional<Time> seen{};  // when it last joined, answered or left
  };
  struct Now {
    std::vector<Seat> seats;  // by worker; empty: nobody tells
    Time opened{};            // when the open round began
  };

  // For those who hear of workers, from any thread.
  void begin(const std::vector<std::string>& names);
  void joined(std::uint32_t worker, const std::string& name);
  void left(std::uint32_t worker);
  void answered(std::uint32_t worker);
  void model_compared(std::uint32_t worker, bool right);
  void round_opened();

  Now now() const;

 private:
  void change(std::uint32_t worker, const auto& how);

  mutable std::mutex mutex_;
  Now now_;
};

}  // namespace signvote
