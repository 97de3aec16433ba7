// Times side by side: the machines are noisy, so what is to be compared runs in turn, many times, and
// the best time of each counts.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <thread>
#include <vector>

namespace signvote::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_of(const auto& body) {
  const Clock::time_point start = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Threads that begin together, waiting in a loop instead of asleep: a wake-up would cost more than
/// the smallest kernels.
class Crew {
 public:
  explicit Crew(std::size_t threads) {
    for (std::size_t t = 1; t < threads; ++t)
      threads_.emplace_back([this, t] {
        for (std::size_t seen = 0;;) {
          while (turn_.load(std::memory_order_acquire) == seen) std::this_thread::yield();
          if (body_ == nullptr) return;
          ++seen;
          (*body_)(t);
          running_.fetch_sub(1, std::memory_order_release);
        }
      });
  }
  ~Crew() {
    begin(nullptr);
    for (std::thread& thread : threads_) thread.join();
  }

  std::size_t size() const { return threads_.size() + 1; }

  /// body(thread) on every thread; returns when all are done.
  void run(const std::function<void(std::size_t)>& body) {
    begin(&body);
    body(0);
    while (running_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  }

 private:
  void begin(const std::function<void(std::size_t)>* body) {
    body_ = body;
    running_ = threads_.size();
    turn_.fetch_add(1, std::memory_order_release);
  }

  std::atomic<std::size_t> turn_ = 0;
  std::atomic<std::size_t> running_ = 0;
  const std::function<void(std::size_t)>* body_ = nullptr;
  std::vector<std::thread> threads_;
};

/// The best time of each, run in turn: at least `least` times, and until `budget` seconds are spent.
/// `before` comes before each, and is not timed.
inline std::vector<double> best_of_turns(std::span<const std::function<void()>> bodies, std::size_t least,
                                         double budget, const std::function<void()>& before) {
  std::vector<double> best(bodies.size(), std::numeric_limits<double>::infinity());
  const Clock::time_point start = Clock::now();
  for (std::size_t turn = 0;
       turn < least || std::chrono::duration<double>(Clock::now() - start).count() < budget; ++turn)
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      before();
      best[i] = std::min(best[i], seconds_of(bodies[i]));
    }
  return best;
}

}  // namespace signvote::bench
