#include "base/thread_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "signvote/error.h"

namespace signvote {

ThreadPool::ThreadPool(std::size_t threads, const std::function<void()>& prepare) {
  const std::size_t count = std::max<std::size_t>(threads, 1);
  threads_.reserve(count);
  try {
    for (std::size_t i = 0; i < count; ++i)
      threads_.emplace_back([this, i, prepare] {
        if (prepare) prepare();
        work(i);
      });
  } catch (const std::system_error& error) {
    const std::size_t started = threads_.size();
    stop();
    throw Error(
        fmt::format("cannot start more than {} of {} threads: {}; take fewer --threads, or raise the limits "
                    "of processes and memory (ulimit -u, ulimit -v)",
                    started, count, error.code().message()));
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::for_each(std::size_t count, const Body& body) {
  std::unique_lock lock(mutex_);
  body_ = &body;
  next_ = 0;
  count_ = count;
  wake_.notify_all();
  done_.wait(lock, [this] { return next_ >= count_ && busy_ == 0; });
  body_ = nullptr;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::work(std::size_t thread) {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || (body_ != nullptr && next_ < count_); });
    if (stop_) return;
    while (next_ < count_) {
      const std::size_t index = next_++;
      ++busy_;
      lock.unlock();
      std::exception_ptr failure;
      try {
        (*body_)(index, thread);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      --busy_;
      if (failure) {
        if (!failure_) failure_ = failure;
        next_ = count_;
      }
    }
    if (busy_ == 0) done_.notify_one();
  }
}

}  // namespace signvote
