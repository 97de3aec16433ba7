// How the workers and the tally of one run reach each other. A process hosts some of the workers and
// the tally of some of the coordinates: `local` all of both, `mpi` a part of each, a server all of the
// tally and no worker. An engine moves ballots and verdicts, and keeps the tally safe; how a model
// learns, it does not know.
//
// A run opens its engine, starts it, and then repeats: send_ballot for every hosted worker,
// receive_verdict, and now and then save. One thread calls all of these but send_ballot.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/run_state.h"
#include "signvote/sign_vector.h"
#include "signvote/tally.h"

namespace signvote {

/// What a worker says beside its signs.
struct BatchLoss {
  std::uint32_t samples = 0;  // of its gradient; 0: it takes no part in the round
  double loss = 0;            // the sum over them

  bool operator==(const BatchLoss&) const = default;
};

/// What a round came to. The same in every process.
struct Outcome {
  const SignVector* verdict = nullptr;  // of all coordinates, valid until the next round's; null: not decided
  std::uint32_t present = 0;            // workers that voted; if nobody did, the round is not decided
  std::vector<BatchLoss> losses;        // by worker
  bool stop = false;                    // some process was asked to stop
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// The workers whose gradients this process computes, ascending.
  virtual std::span<const std::uint32_t> hosted() const = 0;

  /// True in the one process that writes the run's files.
  virtual bool leads() const = 0;

  /// Goes back to where the run was left: calls `saved` with the state that was saved last, whose tally
  /// this engine then has, and `decided` with every round that was decided since, in order. A new run has
  /// no saved state; it begins with `fresh`. Throws DataError for files that cannot be used, and lets
  /// through what `saved` throws.
  virtual void open(const RunState& fresh, const std::function<void(const RunState&)>& saved,
                    const std::function<void(const Outcome&)>& decided) = 0;

  /// Everything is in place in all processes: from here on workers may vote.
  virtual void start() = 0;

  /// Hands over a hosted worker's part of this round; each does so once a round, from any thread.
  /// `ballot` is null if the worker is absent, and else stays as it is until the verdict.
  virtual void send_ballot(std::uint32_t worker, const SignVector* ballot, const BatchLoss& loss) = 0;

  /// Waits for the verdict. `stop` asks all processes to end after this round. Throws EngineError.
  virtual Outcome receive_verdict(bool stop) = 0;

  /// Keeps `state`, to which the engine adds what it knows itself (tally, shards, owners). All processes
  /// call it after the same round. Throws DataError where the run could then not be resumed from here.
  virtual void save(RunState state) = 0;

  /// The run has had its last round: every worker is told.
  virtual void finish() = 0;

  /// Of this process's coordinates.
  virtual const Tally& tally() const = 0;

  /// Every worker's half-errors over all coordinates; empty for Method::mv. All processes call it after the
  /// same round.
  virtual std::vector<std::int64_t> total_half_errors() const = 0;

  /// By this process since it was opened, decided rounds included.
  virtual Traffic traffic() const = 0;
};

}  // namespace signvote
