// How well each method decodes signs that were sent over channels with known error rates, beside the best
// that weights can do. Needs neither a model nor data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "signvote/parallel.h"

namespace signvote {

struct DecodingResult {
  std::string channels;
  std::string method;
  std::uint64_t rounds = 0;  // that the method has learnt from
  double error = 0;          // the share of wrong signs
  double over_optimum = 0;   // divided by that of the true log-likelihood ratios, on the same ballots
};

struct DecodingOptions {
  std::uint64_t coordinates = 100'000;
  std::vector<std::uint64_t> rounds = {50, 1000};  // ascending
  std::uint64_t measured = 10;                     // rounds in which errors are counted
  std::uint64_t seed = 0;
};

/// `done` is called after every round with the name of the channels, the round and their number; it returns
/// false to stop, and then the result is empty.
std::vector<DecodingResult> measure_decoding(
    const DecodingOptions& options, const ParallelFor& parallel_for,
    const std::function<bool(const std::string& channels, std::uint64_t round, std::uint64_t rounds)>& done);

/// Writes table.md and table.csv.
void write_decoding(const std::vector<DecodingResult>& results, const DecodingOptions& options,
                    const std::filesystem::path& folder);

}  // namespace signvote
