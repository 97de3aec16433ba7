// A fixed set of threads that share the indices of a loop. Which thread runs which index is not
// defined, so bodies write only what belongs to their index, and results do not depend on the threads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "signvote/parallel.h"

namespace signvote {

class ThreadPool {
 public:
  /// body(index, thread), with thread in [0, size()).
  using Body = std::function<void(std::size_t index, std::size_t thread)>;

  /// Starts `threads` threads (at least one), each of which calls `prepare` once. Throws Error if the system
  /// does not give that many.
  explicit ThreadPool(std::size_t threads, const std::function<void()>& prepare = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t size() const { return threads_.size(); }

  /// Runs body for every index below count; indices are handed out in ascending order. Returns when
  /// all are done. If a body throws, the indices not yet begun are skipped and the first exception is
  /// thrown again from here.
  /// REQUIRES: not called from a body, nor by two threads at once.
  void for_each(std::size_t count, const Body& body);

  /// for_each as the library takes it. The pool must outlive it.
  ParallelFor parallel_for() {
    return [this](std::size_t count, const std::function<void(std::size_t)>& body) {
      for_each(count, [&body](std::size_t index, std::size_t) { body(index); });
    };
  }

 private:
  void work(std::size_t thread);
  void stop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const Body* body_ = nullptr;
  std::size_t next_ = 0;
  std::size_t count_ = 0;
  std::size_t busy_ = 0;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace signvote
