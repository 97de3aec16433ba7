// Workers that lie, for experiments: what they say instead of their honest ballot. The first L workers do.
//
//   flip:L         the opposite of each sign
//   flip:L:P       the opposite of a share P of the signs, drawn anew in every round
//   late:L:ROUND   honest before round ROUND (counted from 1), the opposite from then on
//   noise:L:SIGMA  the signs of their gradient with noise of SIGMA times its root mean square
//   zero:L         nothing: they abstain on every coordinate
//   collude:L      all the same random signs, drawn anew in every round
//
// Lies are drawn from the run's seed, so they are the same on every engine and after a restart.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "signvote/sign_vector.h"

namespace signvote {

class Attack {
 public:
  /// An empty text is no attack. Throws ConfigError.
  explicit Attack(const std::string& text);

  std::uint32_t liars() const { return liars_; }

  bool adds_noise(std::uint32_t worker) const { return kind_ == Kind::noise && worker < liars_; }

  /// Adds the noise to the gradient that the worker then signs. One that is not finite stays as it is.
  /// REQUIRES: adds_noise(worker).
  void add_noise(std::uint64_t seed, std::uint64_t round, std::uint32_t worker,
                 std::span<float> gradient) const;

  /// Replaces the ballot by what the worker says.
  void apply(std::uint64_t seed, std::uint64_t round, std::uint32_t worker, SignVector& ballot) const;

 private:
  enum class Kind { flip, noise, zero, collude };

  Kind kind_ = Kind::flip;
  std::uint32_t liars_ = 0;
  double share_ = 1;              // of the signs that are flipped
  double sigma_ = 0;              // of the noise, in root mean squares of the gradient
  std::uint64_t from_round_ = 0;  // counted from 0
};

}  // namespace signvote
