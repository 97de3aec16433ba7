#include "run/attack.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <vector>

#include "base/numbers.h"
#include "base/random.h"
#include "signvote/error.h"

namespace signvote {
namespace {

constexpr double kMostSigma = 1e6;

/// As good as normal, with mean 0 and variance 1: the sum of the eight bytes of one draw. Whole numbers,
/// because the logarithms and cosines of the exact ways are not the same on all machines. Its density is
/// within 0.01 of the normal one; it never exceeds 4.9.
double bell(Random& random) {
  static const double deviation = std::sqrt(8 * 65535 / 12.0);  // of the sum; its mean is 8 * 255 / 2
  int sum = -1020;
  for (std::uint64_t bytes = random.bits(); bytes != 0; bytes >>= 8) sum += static_cast<int>(bytes & 0xff);
  return sum / deviation;
}

}  // namespace

Attack::Attack(const std::string& text) {
  if (text.empty()) return;
  std::vector<std::string> parts;
  std::stringstream words(text + ':');
  for (std::string word; std::getline(words, word, ':');) parts.push_back(word);
  const std::string& kind = parts[0];
  const auto liars = parts.size() > 1 ? parse_number<std::uint32_t>(parts[1]) : std::nullopt;
  bool sense = liars && *liars >= 1 && parts.size() == (kind == "late" || kind == "noise" ? 3 : 2);
  if (kind == "flip" && parts.size() == 3) {
    const auto share = parse_number<double>(parts[2]);
    sense = liars && *liars >= 1 && share && *share > 0 && *share <= 1;
    share_ = share.value_or(1);
  } else if (kind == "late" && sense) {
    const auto round = parse_number<std::uint64_t>(parts[2]);
    sense = round && *round >= 1;
    from_round_ = round.value_or(1) - 1;
  } else if (kind == "noise" && sense) {
    const auto sigma = parse_number<double>(parts[2]);
    sense = sigma && *sigma > 0 && *sigma <= kMostSigma;
    sigma_ = sigma.value_or(0);
    kind_ = Kind::noise;
  } else if (kind == "zero") {
    kind_ = Kind::zero;
  } else if (kind == "collude") {
    kind_ = Kind::collude;
  } else if (kind != "flip") {
    sense = false;
  }
  if (!sense)
    throw ConfigError(
        fmt::format("--attack is '{}'; take flip:L, flip:L:P, late:L:ROUND, noise:L:SIGMA, zero:L or "
                    "collude:L with L liars, e.g. flip:6",
                    text));
  liars_ = liars.value_or(0);
}

void Attack::add_noise(std::uint64_t seed, std::uint64_t round, std::uint32_t worker,
                       std::span<float> gradient) const {
  double squares = 0;
  for (const float g : gradient) squares += static_cast<double>(g) * g;
  if (!std::isfinite(squares)) return;
  const double scale = sigma_ * std::sqrt(squares / static_cast<double>(gradient.size()));
  Random random(seed, Purpose::attack, worker, round);
  for (float& g : gradient) g += static_cast<float>(scale * bell(random));
}

void Attack::apply(std::uint64_t seed, std::uint64_t round, std::uint32_t worker, SignVector& ballot) const {
  if (worker >= liars_ || round < from_round_ || kind_ == Kind::noise) return;
  if (kind_ == Kind::zero) return ballot.reset(ballot.size());
  const auto present = ballot.present();
  const auto negative = ballot.negative();
  if (kind_ == Kind::flip && share_ == 1) {
    for (std::size_t w = 0; w < present.size(); ++w) negative[w] = present[w] & ~negative[w];
    return;
  }
  Random random(seed, Purpose::attack, kind_ == Kind::collude ? 0 : worker, round);
  if (kind_ == Kind::collude) {
    for (std::size_t i = 0; i < ballot.size(); ++i) ballot.set(i, (random.bits() & 1) != 0 ? 1 : -1);
    return;
  }
  const auto most = static_cast<std::uint64_t>(share_ * 0x1p53);
  for (std::size_t i = 0; i < ballot.size(); ++i)
    if (random.bits() >> 11 < most) ballot.set(i, -ballot[i]);
}

}  // namespace signvote
