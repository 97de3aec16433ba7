// The tally as a server sees it: a round's ballots go in as bytes, its verdict comes out as bytes. A
// message that cannot be used is no error of the program: it is refused with a reason, and its worker
// counts as absent unless a good message follows.
//
// Threads: any number of threads may call cast for different workers at the same time. While one thread
// calls close, no other may use the box or its tally.
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

  /// Takes a worker's ballot for this round. Returns false if the ballot is refused, because it is
  /// malformed, of another run, round or worker, or the worker's second; `problem` then says why in one
  /// line.
  [[nodiscard]] bool cast(std::uint32_t worker, std::span<const std::byte> bytes, std::string& problem);

  /// Decides the round by the ballots that were cast, and begins the next round. Returns the verdict's
  /// message, which is valid until the next close.
  std::span<const std::byte> close();

  /// What the last close decided.
  const SignVector& verdict() const { return verdict_; }

 private:
  Tally& tally_;
  std::uint64_t run_id_;
  std::vector<SignVector> ballots_;
  std::vector<std::uint8_t> cast_;  // not vector<bool>, whose elements threads cannot write separately
  SignVector verdict_;
  std::vector<std::byte> verdict_bytes_;
};

}  // namespace signvote
