// The engine within one process: all workers and the tally share memory. Ballots and verdicts are still
// encoded, so that the traffic that is counted is what a network would carry.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace signvote {

class LocalEngine : public Engine {
 public:
  /// The tally is that of the whole model: options.begin is 0. The engine saves in `folder`.
  LocalEngine(const TallyOptions& options, std::uint64_t run_id, std::filesystem::path folder,
              ParallelFor parallel = {});

  std::span<const std::uint32_t> hosted() const override { return hosted_; }
  bool leads() const override { return true; }
  void open(const RunState& fresh, const std::function<void(const RunState&)>& saved,
            const std::function<void(const Outcome&)>& decided) override;
  void start() override;
  /// Encodes in the calling thread.
  void send_ballot(std::uint32_t worker, const SignVector* ballot, const BatchLoss& loss) override;
  Outcome receive_verdict(bool stop) override;
  void save(RunState state) override;
  void finish() override {}
  const Tally& tally() const override { return tally_; }
  std::vector<std::int64_t> total_half_errors() const override { return tally_.total_half_errors(); }
  Traffic traffic() const override { return {ballots_, ballot_bytes_, verdicts_, verdict_bytes_}; }

 private:
  Tally tally_;
  std::uint64_t run_id_;
  std::filesystem::path folder_;
  std::vector<std::string> shards_;  // the files that the opened state names
  std::uint64_t saved_round_ = 0;    // that of the opened state
  std::vector<std::uint32_t> hosted_;
  std::vector<std::optional<SignView>> votes_;    // by worker
  std::vector<std::vector<std::byte>> messages_;  // by worker; kept so that their memory is used again
  std::vector<BatchLoss> losses_;
  SignVector verdict_;
  std::vector<std::byte> verdict_message_;
  std::atomic<std::uint64_t> ballots_ = 0;
  std::atomic<std::uint64_t> ballot_bytes_ = 0;
  std::uint64_t verdicts_ = 0;
  std::uint64_t verdict_bytes_ = 0;
};

}  // namespace signvote
