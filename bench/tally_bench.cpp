// The vote alone, on ballots from a file, so that another program can time the same ones.
// tally_bench FILE SECONDS WORKERS SIZE: FILE has a ballot's message for each worker, of run 0 and round 0,
// each after its length (u64). Prints one JSON object.
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "measure.h"
#include "signvote/sign_vector.h"
#include "signvote/tally.h"
#include "signvote/wire.h"

int main(int argc, char** argv) {
  using namespace signvote;
  if (argc != 5) return 2;
  std::ifstream file(argv[1], std::ios::binary);
  const double budget = std::stod(argv[2]);
  const auto workers = static_cast<std::uint32_t>(std::stoul(argv[3]));
  const std::size_t size = std::stoul(argv[4]);
  std::vector<SignVector> ballots(workers);
  for (std::uint32_t m = 0; m < workers; ++m) {
    std::uint64_t length = 0;
    file.read(reinterpret_cast<char*>(&length), sizeof(length));
    std::vector<std::byte> message(file ? length : 0);
    file.read(reinterpret_cast<char*>(message.data()), static_cast<std::streamsize>(length));
    std::string problem;
    if (!decode(message, {.worker = m, .size = size}, ballots[m], problem)) {
      fmt::print(stderr, "{}\n", problem);
      return 1;
    }
  }
  const std::vector<std::optional<SignView>> views(ballots.begin(), ballots.end());
  Tally tally({.workers = workers, .end = size, .initial_rounds = 1});
  SignVector verdict;
  double best = std::numeric_limits<double>::infinity();
  double spent = 0;
  for (int round = 0; round < 5 || spent < budget; ++round) {
    const double seconds = bench::seconds_of([&] { tally.decide(views, verdict); });
    if (round < 2) continue;  // the first is a plain majority, the second warms up
    best = std::min(best, seconds);
    spent += seconds;
  }
  fmt::print(R"({{"bench":"tally","name":"cpp","workers":{},"size":{},"seconds":{:.9f}}})"
             "\n",
             workers, size, best);
}
