// The engine within one process: all workers and the tally share memory, and the bytes between them
// are the same as between machines.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "signvote/ballot_box.h"

namespace signvote {

class LocalEngine : public Engine {
 public:
  /// The tally is that of the whole model: options.begin is 0.
  LocalEngine(const TallyOptions& options, std::uint64_t run_id, ParallelFor parallel_for = {});

  std::span<const std::uint32_t> hosted() const override { return hosted_; }
  bool leads() const override { return true; }

  /// Encodes in the calling thread. In one process a refused ballot can only be a bug, so it throws
  /// EngineError.
  void send_ballot(std::uint32_t worker, const SignVector* ballot, double loss) override;
  Outcome receive_verdict(bool stop) override;

  Tally& tally() override { return tally_; }
  std::vector<std::int64_t> total_half_errors() const override;
  Traffic traffic() const override { return {ballots_, ballot_bytes_, verdicts_, verdict_bytes_}; }
  void wait_for_all() override {}

 private:
  Tally tally_;
  std::uint64_t run_id_;
  BallotBox box_;
  std::vector<std::uint32_t> hosted_;
  std::vector<std::vector<std::byte>> messages_;  // by worker
  std::vector<double> losses_;
  std::atomic<std::uint32_t> present_ = 0;
  SignVector verdict_;
  std::atomic<std::uint64_t> ballots_ = 0;
  std::atomic<std::uint64_t> ballot_bytes_ = 0;
  std::uint64_t verdicts_ = 0;
  std::uint64_t verdict_bytes_ = 0;
};

}  // namespace signvote
