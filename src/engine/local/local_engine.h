// The engine within one process: all workers and the tally share memory, and the bytes between them
// are the same as between machines.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "signvote/error.h"
#include "tally/ballot_box.h"

namespace signvote {

class LocalEngine {
 public:
  explicit LocalEngine(BallotBox& box) : box_(box) {}

  /// Hands over one worker's ballot of this round; workers may do so at the same time. In one process
  /// a refused ballot can only be a bug, so it throws EngineError.
  void send_ballot(std::uint32_t worker, std::span<const std::byte> bytes);

  /// The verdict on the ballots sent, valid until the next call.
  std::span<const std::byte> receive_verdict();

  /// Payload so far, headers included.
  struct Traffic {
    std::uint64_t ballots = 0;
    std::uint64_t ballot_bytes = 0;
    std::uint64_t verdicts = 0;  // each goes to every worker; counted once
    std::uint64_t verdict_bytes = 0;
  };
  Traffic traffic() const { return {ballots_, ballot_bytes_, verdicts_, verdict_bytes_}; }

 private:
  BallotBox& box_;
  std::atomic<std::uint64_t> ballots_ = 0;
  std::atomic<std::uint64_t> ballot_bytes_ = 0;
  std::uint64_t verdicts_ = 0;
  std::uint64_t verdict_bytes_ = 0;
};

}  // namespace signvote
