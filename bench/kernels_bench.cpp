// Each kernel against its limit: a plain stream over the same bytes, on the same threads.
// One JSON object a line.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/weight.h"
#include "measure.h"

namespace signvote::bench {
namespace {

constexpr std::size_t kBits = 64;
constexpr float kTwiceRounds = 32'000;  // so many that the counts stay below it while they grow

/// Memory for vectors and for the stream beside them, in whole cache lines.
template <class T>
class Lines {
 public:
  explicit Lines(std::size_t count)
      : count_(count),
        data_(static_cast<T*>(std::aligned_alloc(128, (count * sizeof(T) + 127) / 128 * 128))) {}
  ~Lines() { std::free(data_); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  T* data() { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }

 private:
  std::size_t count_;
  T* data_;
};

// The streams, which the compiler vectorises for this machine (-march=native).
std::uint64_t read_stream(const void* memory, std::size_t bytes) {
  const auto* words = static_cast<const std::uint64_t*>(memory);
  return std::accumulate(words, words + bytes / 8, std::uint64_t{0});
}
void read_write_stream(void* memory, std::size_t bytes) {
  auto* words = static_cast<std::uint64_t*>(memory);
  for (std::size_t i = 0; i < bytes / 8; ++i) words[i] += 1;
}

std::atomic<std::uint64_t> sink;  // so that what is read is not optimised away

/// Words [first, last) of thread t.
struct Share {
  std::size_t first, last;
};
Share share(std::size_t words, std::size_t t, std::size_t threads) {
  const auto cut = [&](std::size_t i) {
    return words * i / threads / kernels::kBlockWords * kernels::kBlockWords;
  };
  return {cut(t), t + 1 == threads ? words : cut(t + 1)};
}

struct Problem {
  Problem(std::size_t coordinates, std::size_t workers)
      : n(coordinates),
        m(workers),
        words((coordinates + kBits - 1) / kBits),
        planes(2 * workers, std::vector<std::uint64_t>(words)),
        verdict(2 * words),
        counts((words + kernels::kBlockWords - 1) / kernels::kBlockWords * kernels::kBlockCounts * workers),
        values(words * kBits) {
    std::mt19937_64 source(1);
    for (std::size_t w = 0; w < workers; ++w)
      for (std::size_t i = 0; i < words; ++i) {
        present(w)[i] = source() | source() | source();  // an eighth abstain, as on MNIST
        negative(w)[i] = present(w)[i] & source();
      }
    for (std::size_t i = 0; i < counts.bytes() / 2; ++i)
      counts.data()[i] = static_cast<std::uint16_t>(i * 2654435761U >> 13 & 127);
    for (std::size_t i = 0; i < words * kBits; ++i)
      values.data()[i] = i % 8 == 0 ? 0.0F : static_cast<float>(static_cast<std::int64_t>(source())) * 1e-20F;
  }
  std::uint64_t* present(std::size_t w) { return planes[2 * w].data(); }
  std::uint64_t* negative(std::size_t w) { return planes[2 * w + 1].data(); }
  double planes_bytes() const { return 8.0 * static_cast<double>(planes.size() * words); }
  kernels::Planes ballot(std::size_t w) { return {present(w), negative(w)}; }

  std::size_t n, m, words;
  // One allocation for each, as in a SignVector. Large ones begin at the same place of a page, and so
  // compete for the same sets of the first-level cache.
  std::vector<std::vector<std::uint64_t>> planes;
  Lines<std::uint64_t> verdict;
  Lines<std::uint16_t> counts;
  Lines<float> values;
};

/// Drives everything else out of the caches.
class Eviction {
 public:
  explicit Eviction(Crew& crew) : crew_(crew) {}
  void operator()() {
    crew_.run([this](std::size_t t) {
      const auto [first, last] = share(memory_.bytes() / 8, t, crew_.size());
      read_write_stream(memory_.data() + first, (last - first) * 8);
    });
  }

 private:
  /// Twice the last-level cache, as far as the system knows it.
  static std::size_t bytes() {
    const auto known = static_cast<std::size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
    return std::max(std::size_t{96} << 20, 2 * known);
  }
  Crew& crew_;
  Lines<std::uint64_t> memory_{bytes() / 8};
};

/// Runs kernel and stream in turn, each on the words of its thread: with all in the caches that fits
/// ("hot"), and with the caches full of other things ("cold"), as after a gradient.
void compare(const std::string& name, Problem& p, Crew& crew, double bytes, double stream_bytes,
             double budget, const std::function<void(Share)>& kernel,
             const std::function<void(Share)>& stream) {
  const auto on_all = [&](const std::function<void(Share)>& body) {
    return [&, body] { crew.run([&](std::size_t t) { body(share(p.words, t, crew.size())); }); };
  };
  const std::vector<std::function<void()>> bodies = {on_all(stream), on_all(kernel)};
  Eviction evict(crew);
  for (const bool cold : {false, true}) {
    const std::vector<double> best = best_of_turns(
        bodies, 3, budget, cold ? std::function<void()>(std::ref(evict)) : [] {});
    fmt::print(
        R"({{"bench":"kernels","name":"{}","size":{},"workers":{},"threads":{},"caches":"{}","bytes":{:.0f},"seconds":{:.9f},"stream_bytes":{:.0f},"stream_seconds":{:.9f},"ratio":{:.4f}}})"
        "\n",
        name, p.n, p.m, crew.size(), cold ? "cold" : "hot", bytes, best[1], stream_bytes, best[0],
        best[1] / best[0]);
    std::fflush(stdout);
  }
}

void run(std::size_t n, std::size_t m, Crew& crew, double budget) {
  Problem p(n, m);
  const std::int16_t clip = clip_units(10);
  std::vector<kernels::Voter> voters;
  std::vector<kernels::Planes> ballots;
  for (std::size_t w = 0; w < m; ++w) {
    ballots.push_back(p.ballot(w));
    voters.push_back({p.ballot(w),
                      {p.counts.data() + w * kernels::kBlockCounts, m * kernels::kBlockCounts},
                      kTwiceRounds});
  }
  std::uint64_t* out_present = p.verdict.data();
  std::uint64_t* out_negative = p.verdict.data() + p.words;
  const auto counts_bytes = static_cast<double>(p.counts.bytes());
  const double planes_bytes = p.planes_bytes();
  const auto verdict_bytes = static_cast<double>(p.verdict.bytes());

  const auto counters_stream = [&](Share s) {
    read_write_stream(p.counts.data() + s.first * kBits * m, (s.last - s.first) * kBits * 2 * m);
  };
  std::vector<kernels::Voter> shrunk = voters;
  for (kernels::Voter& voter : shrunk) {
    voter.prior = 12.5F;
    voter.twice_rounds += 60;
  }
  for (const bool prior : {false, true})
    compare(
        prior ? "vote_with_prior" : "vote_and_count", p, crew,
        2 * counts_bytes + planes_bytes + verdict_bytes, 2 * counts_bytes, budget,
        [&](Share s) {
          std::vector<std::int64_t> new_half_errors(m);
          kernels::weighted_vote(prior ? shrunk : voters, clip, s.first, s.last, out_present, out_negative,
                                 new_half_errors.data());
        },
        [&](Share s) { counters_stream(s); });
  compare(
      "count", p, crew, 2 * counts_bytes + planes_bytes + verdict_bytes, 2 * counts_bytes, budget / 4,
      [&](Share s) {
        std::vector<std::int64_t> new_half_errors(m);
        kernels::count_half_errors(voters, {out_present, out_negative}, s.first, s.last,
                                   new_half_errors.data());
      },
      counters_stream);
  compare(
      "majority", p, crew, planes_bytes + verdict_bytes, planes_bytes, budget,
      [&](Share s) { kernels::majority(ballots, s.first, s.last, out_present, out_negative); },
      [&](Share s) {
        std::uint64_t sum = 0;
        for (const auto& plane : p.planes) sum += read_stream(plane.data() + s.first, (s.last - s.first) * 8);
        sink = sum;
      });
  if (m != 15) return;  // the others do not depend on it
  const double floats = 4.0 * static_cast<double>(p.words * kBits);
  compare(
      "pack", p, crew, floats + verdict_bytes, floats + verdict_bytes, budget,
      [&](Share s) {
        const std::size_t first = s.first * kBits;
        kernels::pack(p.values.data() + first, std::min(n, s.last * kBits) - first, out_present + s.first,
                      out_negative + s.first);
      },
      [&](Share s) {
        sink = read_stream(p.values.data() + s.first * kBits, (s.last - s.first) * kBits * 4);
        std::memset(out_present + s.first, 0, (s.last - s.first) * 8);
        std::memset(out_negative + s.first, 0, (s.last - s.first) * 8);
      });
  compare(
      "pack_bfloat16", p, crew, floats / 2 + verdict_bytes, floats / 2 + verdict_bytes, budget,
      [&](Share s) {
        const std::size_t first = s.first * kBits;
        kernels::pack(reinterpret_cast<const std::uint16_t*>(p.counts.data()) + first,
                      std::min(n, s.last * kBits) - first, out_present + s.first, out_negative + s.first);
      },
      [&](Share s) {
        sink = read_stream(p.counts.data() + s.first * kBits, (s.last - s.first) * kBits * 2);
        std::memset(out_present + s.first, 0, (s.last - s.first) * 8);
        std::memset(out_negative + s.first, 0, (s.last - s.first) * 8);
      });
  compare(
      "step", p, crew, 2 * floats + verdict_bytes, 2 * floats + verdict_bytes, budget,
      [&](Share s) {
        const std::size_t first = s.first * kBits;
        kernels::step(p.values.data() + first, std::min(n, s.last * kBits) - first,
                      ballots[0].present + s.first, ballots[0].negative + s.first, 1e-3F, 0);
      },
      [&](Share s) {
        auto* x = p.values.data() + s.first * kBits;
        for (std::size_t i = 0; i < (s.last - s.first) * kBits; ++i) x[i] -= 1e-3F;
        sink = read_stream(ballots[0].present + s.first, (s.last - s.first) * 8) +
               read_stream(ballots[0].negative + s.first, (s.last - s.first) * 8);
      });
}

}  // namespace
}  // namespace signvote::bench

/// kernels_bench THREADS SECONDS WORKERS,... SIZE...: SECONDS for each measurement.
int main(int argc, char** argv) {
  using namespace signvote::bench;
  if (argc < 5) return 2;
  Crew crew(std::stoul(argv[1]));
  const double budget = std::stod(argv[2]);
  std::vector<std::size_t> workers;
  std::istringstream list(argv[3]);
  for (std::string item; std::getline(list, item, ',');) workers.push_back(std::stoul(item));
  for (int i = 4; i < argc; ++i)
    for (const std::size_t m : workers) run(std::stoul(argv[i]), m, crew, budget);
}
