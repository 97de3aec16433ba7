#include "learn/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "base/numbers.h"
#include "base/random.h"
#include "signvote/error.h"

namespace signvote {
namespace {

using Shares = std::vector<std::vector<std::uint32_t>>;

struct Rule {
  enum Kind { iid, shared, labels, dirichlet } kind;
  double number = 0;
};

Rule parse(const std::string& text) {
  if (text == "iid") return {Rule::iid};
  if (text == "shared") return {Rule::shared};
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  if (colon == std::string::npos || (name != "labels" && name != "dirichlet"))
    throw ConfigError(fmt::format("--partition is '{}'; take iid, shared, labels:K or dirichlet:A", text));
  const double number = parse_number<double>(text.substr(colon + 1)).value_or(0);
  if (name == "labels") {
    if (!(number >= 1) || number != std::floor(number))
      throw ConfigError(fmt::format("--partition is '{}'; K must be a whole number, 1 or more", text));
    return {Rule::labels, number};
  }
  if (!(number > 0 && number <= 1e6))
    throw ConfigError(fmt::format("--partition is '{}'; A must be a number above 0 and up to 1e6", text));
  return {Rule::dirichlet, number};
}

/// Cuts `items` into `parts` runs whose lengths differ by at most one.
Shares deal(std::span<const std::uint32_t> items, std::size_t parts) {
  Shares shares(parts);
  for (std::size_t i = 0; i < parts; ++i) {
    const auto run =
        items.subspan(i * items.size() / parts, (i + 1) * items.size() / parts - i * items.size() / parts);
    shares[i].assign(run.begin(), run.end());
  }
  return shares;
}

/// The samples of each label, each list in random order.
Shares by_label(std::span<const std::int64_t> labels, std::size_t classes, Random& random) {
  Shares pools(classes);
  for (std::size_t i = 0; i < labels.size(); ++i)
    pools[static_cast<std::size_t>(labels[i])].push_back(static_cast<std::uint32_t>(i));
  for (auto& pool : pools) random.shuffle(std::span(pool));
  return pools;
}

Shares by_few_labels(std::size_t per_worker, Shares pools, std::size_t workers, Random& random) {
  std::vector<std::size_t> order(pools.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  random.shuffle(std::span(order));
  std::vector<std::vector<std::size_t>> holders(pools.size());
  for (std::size_t m = 0; m < workers; ++m)
    for (std::size_t j = 0; j < per_worker; ++j)
      holders[order[(m * per_worker + j) % order.size()]].push_back(m);
  Shares shares(workers);
  for (std::size_t label = 0; label < pools.size(); ++label) {
    if (holders[label].empty()) continue;
    const Shares dealt = deal(pools[label], holders[label].size());
    for (std::size_t i = 0; i < dealt.size(); ++i) {
      auto& share = shares[holders[label][i]];
      share.insert(share.end(), dealt[i].begin(), dealt[i].end());
    }
  }
  return shares;
}

Shares by_dirichlet(double alpha, Shares pools, std::size_t samples, std::size_t workers, Random& random) {
  Shares shares(workers);
  for (auto& share : shares) {
    std::gamma_distribution<double> gamma(alpha, 1.0);
    std::vector<double> mix(pools.size());
    for (double& part : mix) part = gamma(random.engine());
    for (std::size_t i = 0; i < samples / workers; ++i) {
      // Draws a label from the mix, among those that have samples left. If the mix has underflowed to 0 on
      // all of these, takes the label with the most samples left.
      double total = 0;
      for (std::size_t label = 0; label < pools.size(); ++label)
        if (!pools[label].empty()) total += mix[label];
      std::size_t pick = static_cast<std::size_t>(
          std::max_element(pools.begin(), pools.end(),
                           [](const auto& a, const auto& b) { return a.size() < b.size(); }) -
          pools.begin());
      double left = total * static_cast<double>(random.bits() >> 11) * 0x1p-53;
      for (std::size_t label = 0; label < pools.size() && total > 0; ++label) {
        if (pools[label].empty()) continue;
        if (left < mix[label]) {
          pick = label;
          break;
        }
        left -= mix[label];
      }
      share.push_back(pools[pick].back());
      pools[pick].pop_back();
    }
  }
  return shares;
}

}  // namespace

void check_partition_rule(const std::string& rule) { parse(rule); }

Shares partition(const std::string& rule, std::size_t samples, std::span<const std::int64_t> labels,
                 std::size_t classes, std::size_t workers, std::uint64_t seed) {
  assert(workers > 0);
  const Rule parsed = parse(rule);
  const bool by_class = parsed.kind == Rule::labels || parsed.kind == Rule::dirichlet;
  if (by_class && labels.size() != samples)
    throw ConfigError(fmt::format(
        "--partition is '{}', but y of this data set is not a class for each sample; take iid or shared",
        rule));
  if (parsed.kind == Rule::labels && parsed.number > static_cast<double>(classes))
    throw ConfigError(
        fmt::format("--partition is '{}'; K must be a whole number from 1 to {}", rule, classes));
  Random random(seed, Purpose::partition);
  std::vector<std::uint32_t> all(samples);
  std::iota(all.begin(), all.end(), 0U);
  Shares shares;
  switch (parsed.kind) {
    case Rule::shared:
      return Shares(workers, all);
    case Rule::iid:
      random.shuffle(std::span(all));
      shares = deal(all, workers);
      break;
    case Rule::labels:
      shares = by_few_labels(static_cast<std::size_t>(parsed.number), by_label(labels, classes, random),
                             workers, random);
      break;
    case Rule::dirichlet:
      shares = by_dirichlet(parsed.number, by_label(labels, classes, random), samples, workers, random);
      break;
  }
  for (auto& share : shares) std::sort(share.begin(), share.end());
  return shares;
}

}  // namespace signvote
