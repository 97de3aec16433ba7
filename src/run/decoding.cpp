#include "run/decoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "base/files.h"
#include "base/random.h"
#include "signvote/tally.h"

namespace signvote {
namespace {

constexpr std::size_t kWorkers = 15;

struct Channels {
  std::string name;
  std::array<double, kWorkers> error_rates{};
};

std::vector<Channels> all_channels() {
  std::vector<Channels> all;
  for (const double strong : {0.05, 0.10, 0.20, 0.40}) {
    all.push_back({fmt::format("one at {:.2f} and 14 at 0.40", strong)});
    all.back().error_rates.fill(0.40);
    all.back().error_rates.back() = strong;
  }
  all.push_back({"from 0.06 to 0.48"});
  for (std::size_t m = 0; m < kWorkers; ++m) all.back().error_rates[m] = 0.06 + 0.03 * static_cast<double>(m);
  all.push_back({"12 at 0.40 and 3 liars at 0.80"});
  all.back().error_rates.fill(0.40);
  std::fill_n(all.back().error_rates.begin(), 3, 0.80);
  return all;
}

/// A word of 64 coordinates in which each bit is set with probability `rate`, to 1/65536: bit by bit of the
/// rate, from the lowest, `and` halves the probability so far and `or` adds a half to it.
std::uint64_t biased_bits(Random& random, double rate) {
  const auto fraction = static_cast<std::uint32_t>(std::lround(rate * 65536));
  std::uint64_t bits = 0;
  for (int bit = 0; bit < 16; ++bit)
    bits = (fraction >> bit & 1) != 0 ? bits | random.bits() : bits & random.bits();
  return bits;
}

class Round {
 public:
  Round(const Channels& channels, std::uint64_t coordinates)
      : channels_(channels), truth_(coordinates), ballots_(kWorkers, SignVector(coordinates)) {}

  void draw(std::uint64_t seed, std::uint64_t round, const ParallelFor& parallel_for) {
    const std::size_t words = truth_.present().size();
    constexpr std::size_t kWords = 256;
    parallel_for((words + kWords - 1) / kWords, [&](std::size_t range) {
      Random random(seed, Purpose::channels, round, range);
      for (std::size_t w = range * kWords; w < std::min(words, (range + 1) * kWords); ++w) {
        const std::size_t used = std::min<std::size_t>(64, truth_.size() - 64 * w);
        const std::uint64_t mask = used == 64 ? ~0ULL : (1ULL << used) - 1;
        const std::uint64_t truth = random.bits() & mask;
        truth_.present()[w] = mask;
        truth_.negative()[w] = truth;
        for (std::size_t m = 0; m < kWorkers; ++m) {
          ballots_[m].present()[w] = mask;
          ballots_[m].negative()[w] = (truth ^ biased_bits(random, channels_.error_rates[m])) & mask;
        }
      }
    });
  }

  std::vector<std::optional<SignView>> ballots() const { return {ballots_.begin(), ballots_.end()}; }

  /// A tie is half an error.
  double errors(const SignVector& verdict) const {
    std::int64_t halves = 0;
    for (std::size_t w = 0; w < truth_.present().size(); ++w) {
      const std::uint64_t voted = verdict.present()[w];
      halves += 2 * std::popcount((truth_.negative()[w] ^ verdict.negative()[w]) & voted);
      halves += std::popcount(truth_.present()[w] & ~voted);
    }
    return static_cast<double>(halves) / 2;
  }

 private:
  const Channels& channels_;
  SignVector truth_;
  std::vector<SignVector> ballots_;
};

}  // namespace

std::vector<DecodingResult> measure_decoding(
    const DecodingOptions& options, const ParallelFor& parallel_for,
    const std::function<bool(const std::string& channels, std::uint64_t round, std::uint64_t rounds)>& done) {
  std::vector<DecodingResult> results;
  for (const Channels& channels : all_channels()) {
    std::vector<std::pair<std::string, Tally>> tallies;
    const auto add = [&](const char* name, Method method, std::vector<double> weights) {
      tallies.emplace_back(
          name, Tally({method, kWorkers, 0, options.coordinates, default_initial_rounds(method), 10,
                       default_prior_rounds(method), std::move(weights)},
                      parallel_for));
    };
    std::vector<double> best;
    for (const double p : channels.error_rates) best.push_back(std::log((1 - p) / p));
    add("optimum", Method::fixed, best);
    add("mv", Method::mv, {});
    add("it", Method::it, {});
    add("shrink", Method::shrink, {});
    add("agree", Method::agree, {});

    Round round(channels, options.coordinates);
    SignVector verdict;
    std::uint64_t drawn = 0;
    for (const std::uint64_t learnt : options.rounds) {
      for (; drawn < learnt; ++drawn) {
        round.draw(options.seed, drawn, parallel_for);
        for (auto& [name, tally] : tallies) tally.decide(round.ballots(), verdict);
        if (!done(channels.name, drawn + 1, options.rounds.back())) return {};
      }
      std::vector<double> errors(tallies.size());
      std::vector<std::vector<std::byte>> before;
      for (const auto& [name, tally] : tallies) before.push_back(tally.snapshot());
      for (std::uint64_t i = 0; i < options.measured; ++i) {
        round.draw(options.seed, (1ULL << 32) + i, parallel_for);
        for (std::size_t t = 0; t < tallies.size(); ++t) {
          tallies[t].second.decide(round.ballots(), verdict);
          errors[t] += round.errors(verdict);
          tallies[t].second.restore(before[t]);
        }
      }
      const auto signs = static_cast<double>(options.measured * options.coordinates);
      for (std::size_t t = 0; t < tallies.size(); ++t)
        results.push_back(
            {channels.name, tallies[t].first, learnt, errors[t] / signs, errors[t] / errors[0]});
    }
  }
  return results;
}

void write_decoding(const std::vector<DecodingResult>& results, const DecodingOptions& options,
                    const std::filesystem::path& folder) {
  make_folder(folder);
  std::string csv = "channels,method,rounds,error,over_optimum\n";
  std::string md = fmt::format(
      "# Wrong signs over those of the optimum, 15 workers, {} coordinates, seed {}\n\n"
      "| channels | rounds | optimum | mv | it | shrink | agree |\n|---|---|---|---|---|---|---|",
      options.coordinates, options.seed);
  for (const DecodingResult& result : results) {
    fmt::format_to(std::back_inserter(csv), "{},{},{},{},{}\n", result.channels, result.method, result.rounds,
                   result.error, result.over_optimum);
    if (result.method == "optimum")
      fmt::format_to(std::back_inserter(md), "\n| {} | {} | {:.2f} % |", result.channels, result.rounds,
                     100 * result.error);
    else
      fmt::format_to(std::back_inserter(md), " {:.3f} |", result.over_optimum);
  }
  write_file_atomically(folder / "table.csv", csv);
  write_file_atomically(folder / "table.md", md + "\n");
}

}  // namespace signvote
