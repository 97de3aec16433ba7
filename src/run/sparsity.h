// Which coordinates a worker votes on; on all others it abstains.
//
//   1          all of them
//   K          the share K, 0 < K < 1, with the largest magnitudes of what it would sign and has not sent
//   yet:
//                unsent <- unsent + what it would sign; the largest are signed, and unsent is 0 there
//   random:K   a random share K, drawn anew for each worker and round
//
// What is left unsent must be kept with K, because otherwise a small coordinate would never be heard, however
// long it pointed the same way. With random:K every coordinate is heard now and then, whatever its size.
// Does not use torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "signvote/sign_vector.h"

namespace signvote {

class Sparsity {
 public:
  /// Throws ConfigError.
  explicit Sparsity(const std::string& text);

  /// How many of n coordinates it votes on: n * K, rounded, and at least one.
  std::size_t count(std::size_t n) const;

  /// Whether workers remember what they did not send.
  bool keeps_unsent() const { return share_ < 1 && !random_; }

  /// Makes `ballot` the signs of the count(n) largest magnitudes, and these zero. Of equal ones the first are
  /// sent, and never a zero. REQUIRES: keeps_unsent(), and no number is NaN.
  void send_largest(std::span<float> unsent, SignVector& ballot) const;

  /// With random:K, lets the ballot abstain on all but count(n) coordinates; otherwise it stays as it is.
  void thin(std::uint64_t seed, std::uint64_t round, std::uint32_t worker, SignVector& ballot) const;

 private:
  double share_ = 1;
  bool random_ = false;
};

}  // namespace signvote
