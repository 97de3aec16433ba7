// How the workers and the tally of one run reach each other. A process hosts some of the workers and
// the tally of some of the coordinates: `local` all of both, `mpi` a part of each. An engine moves
// ballots and verdicts; what is voted on, and how a model learns, it does not know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "signvote/sign_vector.h"
#include "signvote/tally.h"

namespace signvote {

/// Payload so far of all processes, headers included.
struct Traffic {
  std::uint64_t ballots = 0;
  std::uint64_t ballot_bytes = 0;
  std::uint64_t verdicts = 0;  // each goes to every worker; counted once
  std::uint64_t verdict_bytes = 0;

  bool operator==(const Traffic&) const = default;

  Traffic& operator+=(const Traffic& other) {
    ballots += other.ballots;
    ballot_bytes += other.ballot_bytes;
    verdicts += other.verdicts;
    verdict_bytes += other.verdict_bytes;
    return *this;
  }
};

/// What a round came to. The same in every process.
struct Outcome {
  const SignVector* verdict = nullptr;  // of all coordinates; valid until the next round's
  std::uint32_t present = 0;            // workers that voted
  std::vector<double> losses;           // by worker, as they were sent; NaN if absent
  bool stop = false;                    // some process asked to stop
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// The workers whose gradients this process computes, ascending.
  virtual std::span<const std::uint32_t> hosted() const = 0;

  /// True in the one process that writes the run's files.
  virtual bool leads() const = 0;

  /// Hands over a hosted worker's part of this round; each does so once a round, from any thread.
  /// `ballot` is null if the worker is absent; it must stay as it is until the verdict. `loss` is the
  /// sum over its samples, NaN if absent.
  virtual void send_ballot(std::uint32_t worker, const SignVector* ballot, double loss) = 0;

  /// Waits for the verdict. `stop` asks all processes to end after this round. Throws EngineError.
  virtual Outcome receive_verdict(bool stop) = 0;

  /// Of this process's coordinates.
  virtual Tally& tally() = 0;

  /// Every worker's half-errors over all coordinates, as of the last wait_for_all; empty for Method::mv.
  virtual std::vector<std::int64_t> total_half_errors() const = 0;

  virtual Traffic traffic() const = 0;

  /// Returns when every process has called it. From then on total_half_errors is that of all processes'
  /// tallies as they are now.
  virtual void wait_for_all() = 0;
};

}  // namespace signvote
