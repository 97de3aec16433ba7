// The pool: every index once, whatever the threads; exceptions come out and leave it as it was.
#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <stdexcept>

#include "signvote/error.h"

namespace signvote {
namespace {

using Counts = std::vector<std::atomic<int>>;

bool all_equal(const Counts& counts, int value) {
  return std::all_of(counts.begin(), counts.end(), [value](const auto& count) { return count == value; });
}

TEST(ThreadPool, every_index_once) {
  EXPECT_TRUE(rc::check("whatever the number of threads", [] {
    const auto threads = *rc::gen::inRange<std::size_t>(1, 9);
    const auto count = *rc::gen::inRange<std::size_t>(0, 200);
    ThreadPool pool(threads);
    RC_ASSERT(pool.size() == threads);
    Counts runs(count);
    std::atomic<bool> in_range = true;
    pool.for_each(count, [&](std::size_t index, std::size_t thread) {
      ++runs.at(index);
      if (thread >= threads) in_range = false;
    });
    RC_ASSERT(all_equal(runs, 1));
    RC_ASSERT(in_range);
  }));
}

TEST(ThreadPool, no_threads_is_one) {
  ThreadPool pool(0);
  EXPECT_EQ(pool.size(), 1U);
  int runs = 0;
  pool.for_each(3, [&](std::size_t, std::size_t thread) { runs += thread == 0 ? 1 : 100; });
  EXPECT_EQ(runs, 3);
}

// A limit of memory does the same as one of processes, which does not bind root.
TEST(ThreadPool, more_threads_than_the_system_gives_is_an_error) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers need more address space than this limit gives";
#else
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{std::size_t{1} << 30, std::size_t{1} << 30};
    ::setrlimit(RLIMIT_AS, &limit);
    int code = 1;
    try {
      ThreadPool pool(1024);
    } catch (const Error& error) {
      const std::string what = error.what();
      code = what.find("of 1024 threads") != std::string::npos && what.find("--threads") != std::string::npos
                 ? 0
                 : 2;
    }
    ::_exit(code);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
#endif
}

// What callers rely on when they keep a network per thread number.
TEST(ThreadPool, a_thread_number_is_one_thread_for_life) {
  ThreadPool pool(4);
  std::vector<std::set<std::thread::id>> seen(4);  // written by that thread alone
  for (int round = 0; round < 50; ++round)
    pool.for_each(20,
                  [&](std::size_t, std::size_t thread) { seen[thread].insert(std::this_thread::get_id()); });
  std::set<std::thread::id> all;
  for (const auto& ids : seen) {
    EXPECT_LE(ids.size(), 1U);
    EXPECT_FALSE(ids.contains(std::this_thread::get_id()));
    for (const auto& id : ids) EXPECT_TRUE(all.insert(id).second);
  }
}

TEST(ThreadPool, indices_are_handed_out_in_order) {
  for (const std::size_t threads : {1U, 3U}) {
    ThreadPool pool(threads);
    std::vector<std::vector<std::size_t>> taken(threads);
    pool.for_each(500, [&](std::size_t index, std::size_t thread) { taken[thread].push_back(index); });
    for (const auto& indices : taken) EXPECT_TRUE(std::is_sorted(indices.begin(), indices.end()));
  }
}

TEST(ThreadPool, bodies_run_at_the_same_time) {
  ThreadPool pool(3);
  std::atomic<int> waiting = 0;
  pool.for_each(3, [&](std::size_t, std::size_t) {
    ++waiting;
    while (waiting < 3) std::this_thread::yield();
  });
  EXPECT_EQ(waiting, 3);
}

TEST(ThreadPool, many_rounds) {
  ThreadPool pool(4);
  Counts runs(7);
  for (int round = 1; round <= 3000; ++round) {
    pool.for_each(runs.size(), [&](std::size_t index, std::size_t) { ++runs[index]; });
    ASSERT_TRUE(all_equal(runs, round)) << "after round " << round;
  }
}

TEST(ThreadPool, prepare_is_called_once_per_thread_before_its_first_body) {
  for (std::size_t threads = 1; threads <= 8; ++threads) {
    std::atomic<std::size_t> prepared = 0;
    static thread_local bool ready = false;
    {
      ThreadPool pool(threads, [&] {
        ++prepared;
        ready = true;
      });
      std::atomic<int> unready = 0;
      pool.for_each(100, [&](std::size_t, std::size_t) { unready += ready ? 0 : 1; });
      EXPECT_EQ(unready, 0);
    }
    EXPECT_EQ(prepared, threads);
    EXPECT_FALSE(ready) << "prepared the caller's thread";
  }
}

TEST(ThreadPool, an_exception_comes_out_and_the_pool_goes_on) {
  EXPECT_TRUE(rc::check("wherever it is thrown", [] {
    ThreadPool pool(*rc::gen::inRange<std::size_t>(1, 6));
    for (int round = 0; round < 3; ++round) {
      const auto count = *rc::gen::inRange<std::size_t>(1, 50);
      const auto bad = *rc::gen::inRange<std::size_t>(0, count);
      Counts runs(count);
      std::string thrown;
      try {
        pool.for_each(count, [&](std::size_t index, std::size_t) {
          ++runs[index];
          if (index == bad) throw std::runtime_error("index " + std::to_string(index));
        });
      } catch (const std::runtime_error& error) {
        thrown = error.what();
      }
      RC_ASSERT(thrown == "index " + std::to_string(bad));
      for (std::size_t i = 0; i < count; ++i) RC_ASSERT(runs[i] == 1 || (runs[i] == 0 && i > bad));
      Counts again(count);
      pool.for_each(count, [&](std::size_t index, std::size_t) { ++again[index]; });
      RC_ASSERT(all_equal(again, 1));
    }
  }));
}

TEST(ThreadPool, the_rest_is_skipped_after_an_exception) {
  ThreadPool pool(1);
  std::size_t last = 0;
  EXPECT_THROW(pool.for_each(100,
                             [&](std::size_t index, std::size_t) {
                               last = index;
                               if (index == 10) throw 7;  // not even a std::exception
                             }),
               int);
  EXPECT_EQ(last, 10U);
}

TEST(ThreadPool, all_may_throw) {
  ThreadPool pool(4);
  for (int round = 0; round < 200; ++round)
    EXPECT_THROW(pool.for_each(4, [](std::size_t, std::size_t) { throw std::logic_error("all"); }),
                 std::logic_error);
  pool.for_each(0, [](std::size_t, std::size_t) { FAIL() << "an index below 0"; });
}

TEST(ThreadPool, what_bodies_wrote_is_seen_afterwards) {
  ThreadPool pool(4);
  std::vector<std::size_t> squares(10'000);  // plain memory: for_each must order the accesses
  pool.for_each(squares.size(), [&](std::size_t index, std::size_t) { squares[index] = index * index; });
  for (std::size_t i = 0; i < squares.size(); ++i) ASSERT_EQ(squares[i], i * i);
}

}  // namespace
}  // namespace signvote
