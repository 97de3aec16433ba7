// An engine connects a run's workers with its tally. It moves ballots and verdicts and saves the tally; it
// knows nothing about how a model learns. Each process hosts some workers and the tally of some
// coordinates: `local` all of both, `mpi` a part of each, a server the whole tally and no worker.
//
// A run opens its engine, starts it, and then repeats: send_ballot for every hosted worker,
// receive_verdict, and now and then save. One thread calls all members; only send_ballot may be called from
// any.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/run_state.h"
#include "signvote/sign_vector.h"
#include "signvote/tally.h"

namespace signvote {

/// What a worker reports in addition to its signs.
struct BatchLoss {
  std::uint32_t samples = 0;  // in its gradient; 0: it takes no part in the round
  double loss = 0;            // the sum over these samples

  bool operator==(const BatchLoss&) const = default;
};

/// A worker's own test of the model before a round, if the engine's process cannot test it.
struct ReportedTest {
  std::string by;                  // the worker's name
  std::optional<double> accuracy;  // 0 to 1
  std::optional<double> loss;
};

/// The result of a round, the same in every process. Its verdict is valid until the next receive_verdict.
struct Outcome {
  const SignVector* verdict = nullptr;  // on all coordinates; null: the round was not decided
  std::uint32_t present = 0;            // workers that voted; if there are none, the round is not decided
  std::vector<BatchLoss> losses;        // by worker
  bool stop = false;                    // some process was asked to stop
  std::vector<ReportedTest> tests{};    // of the model before this round; only a server has them
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// The workers whose gradients this process computes, ascending.
  virtual std::span<const std::uint32_t> hosted() const = 0;

  /// True in the one process that writes the run's files.
  virtual bool leads() const = 0;

  /// Continues where the run was left. Calls `saved` with the state that was saved last, then restores the
  /// tally from it, and calls `decided` with every round that was decided since, in order. A new run has no
  /// saved state and begins with `fresh`. Throws DataError if the files cannot be used, and passes on what
  /// `saved` throws.
  virtual void open(const RunState& fresh, const std::function<void(const RunState&)>& saved,
                    const std::function<void(const Outcome&)>& decided) = 0;

  /// To be called when every process is ready. From here on workers may vote.
  virtual void start() = 0;

  /// Hands over a hosted worker's part of this round; to be called once a round for each, from any thread.
  /// `ballot` is null if the worker is absent; otherwise it must not change before the verdict.
  virtual void send_ballot(std::uint32_t worker, const SignVector* ballot, const BatchLoss& loss) = 0;

  /// Tells the digest of this process's parameters before the open round, in rounds that are multiples of
  /// kDigestEvery. An engine with several replicas compares them in receive_verdict.
  virtual void send_digest(std::uint64_t) {}

  /// Waits for the verdict. `stop` asks all processes to end after this round. Throws EngineError.
  virtual Outcome receive_verdict(bool stop) = 0;

  /// Saves `state`, to which the engine adds what it knows itself (tally, shards, owners). All processes
  /// call it after the same round. Throws DataError if the run could not be resumed from here.
  virtual void save(RunState state) = 0;

  /// To be called after the last round. Tells every worker that the run is over.
  virtual void finish() = 0;

  /// The tally of this process's coordinates.
  virtual const Tally& tally() const = 0;

  /// Every worker's half-errors over all coordinates; empty for Method::mv. All processes call it after the
  /// same round.
  virtual std::vector<std::int64_t> total_half_errors() const = 0;

  /// What all processes have sent since this one opened the engine, replayed rounds included. Verdicts are
  /// counted by the process that leads.
  virtual Traffic traffic() const = 0;
};

}  // namespace signvote
