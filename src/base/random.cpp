#include "base/random.h"

#include <xxhash.h>

#include <array>
#include <cassert>

namespace signvote {

Random::Random(std::uint64_t seed, Purpose purpose, std::uint64_t a, std::uint64_t b) {
  const std::array<std::uint64_t, 4> name = {seed, static_cast<std::uint64_t>(purpose), a, b};
  engine_.seed(XXH3_64bits(name.data(), sizeof(name)));
}

std::uint64_t Random::below(std::uint64_t bound) {
  assert(bound > 0);
  // 2^64 mod bound. With the draws below it rejected, every remainder is equally likely.
  const std::uint64_t rejected = -bound % bound;
  std::uint64_t draw = bits();
  while (draw < rejected) draw = bits();
  return draw % bound;
}

std::vector<std::uint32_t> Random::distinct(std::size_t count, std::uint32_t bound) {
  assert(count <= bound);
  // Floyd's sampling draws a uniform set with only `count` draws, but not in a uniform order, so the
  // set is shuffled.
  std::vector<std::uint32_t> chosen;
  chosen.reserve(count);
  std::vector<bool> taken(bound);
  for (std::uint32_t j = bound - static_cast<std::uint32_t>(count); j < bound; ++j) {
    auto pick = static_cast<std::uint32_t>(below(std::uint64_t{j} + 1));
    if (taken[pick]) pick = j;
    taken[pick] = true;
    chosen.push_back(pick);
  }
  shuffle(std::span(chosen));
  return chosen;
}

}  // namespace signvote
