// A round's ballots as bytes in, its verdict as bytes out: the tally as engines see it. A message
// that cannot be used is data: it is refused with a reason, and its worker counts as absent unless a
// good one follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "signvote/sign_vector.h"
#include "signvote/tally.h"

namespace signvote {

class BallotBox {
 public:
  /// `tally` must outlive the box. The first round is tally.rounds().
  BallotBox(Tally& tally, std::uint64_t run_id);

  std::uint64_t round() const { return tally_.rounds(); }

  /// Takes worker m's ballot for this round. False: refused, and `problem` says why in one line (of
  /// another run, round or worker, malformed, or the worker's second). Different workers may cast at
  /// the same time.
  bool cast(std::uint32_t worker, std::span<const std::byte> bytes, std::string& problem);

  /// Decides the round on what was cast and begins the next. The bytes are valid until then.
  std::span<const std::byte> close();

 private:
  Tally& tally_;
  std::uint64_t run_id_;
  std::vector<SignVector> ballots_;
  std::vector<std::uint8_t> cast_;  // not vector<bool>: workers cast at the same time
  SignVector verdict_;
  std::vector<std::byte> verdict_bytes_;
};

}  // namespace signvote
