// The server's whole round: M ballots decoded from bytes, the vote, the count, the verdict encoded.
// server_round_bench THREADS SECONDS WORKERS SIZE: one JSON object a line.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "measure.h"
#include "signvote/ballot_box.h"
#include "signvote/sign_vector.h"
#include "signvote/tally.h"
#include "signvote/wire.h"

namespace signvote::bench {
namespace {

constexpr std::uint64_t kRunId = 1;

/// `abstain` of 8 coordinates abstain.
std::vector<SignVector> random_ballots(std::size_t workers, std::size_t size, unsigned abstain) {
  std::mt19937_64 source(1);
  std::vector<SignVector> ballots(workers, SignVector(size));
  for (SignVector& ballot : ballots)
    for (std::size_t i = 0; i < size; ++i)
      ballot.set(i, source() % 8 < abstain ? 0 : source() % 2 == 0 ? -1 : 1);
  return ballots;
}

void run(const std::string& name, std::size_t workers, std::size_t size, unsigned abstain, ThreadPool& pool,
         double budget) {
  Tally tally({Method::it, static_cast<std::uint32_t>(workers), 0, size, 100, 10.0}, pool.parallel_for());
  BallotBox box(tally, kRunId);
  const std::vector<SignVector> ballots = random_ballots(workers, size, abstain);
  std::vector<std::vector<std::byte>> messages(workers);
  double best = std::numeric_limits<double>::infinity();
  double spent = 0;
  for (std::size_t round = 0; round < 105 || spent < budget; ++round) {
    for (std::uint32_t m = 0; m < workers; ++m)
      encode({MessageKind::ballot, kRunId, round, m, size}, ballots[(m + round) % workers], messages[m]);
    const double seconds = seconds_of([&] {
      pool.for_each(workers, [&](std::size_t m, std::size_t) {
        std::string problem;
        if (!box.cast(static_cast<std::uint32_t>(m), messages[m], problem)) std::abort();
      });
      box.close();
    });
    if (round < 102) continue;  // the first rounds are plain majorities
    best = std::min(best, seconds);
    spent += seconds;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
      R"({{"bench":"server_round","name":"{}","workers":{},"size":{},"threads":{},"seconds":{:.6f},"peak_bytes":{}}})"
      "\n",
      name, workers, size, pool.size(), best, usage.ru_maxrss * 1024);
}

}  // namespace
}  // namespace signvote::bench

int main(int argc, char** argv) {
  using namespace signvote;
  if (argc != 5) return 2;
  ThreadPool pool(std::stoul(argv[1]));
  const double budget = std::stod(argv[2]);
  const std::size_t workers = std::stoul(argv[3]);
  const std::size_t size = std::stoul(argv[4]);
  bench::run("signvote", workers, size, 1, pool, budget);
  bench::run("signvote_nobody_abstains", workers, size, 0, pool, budget);
}
