// What a run leaves in its folder while it goes and at its end: metrics.jsonl, model.pt, summary.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/thread_pool.h"
#include "learn/dataset.h"
#include "learn/models.h"
#include "run/config.h"
#include "run/run_progress.h"
#include "signvote/error.h"
#include "signvote/tally.h"

namespace signvote {

class Record {
 public:
  /// Goes on with metrics.jsonl after its first `keep` bytes. References must outlive this.
  Record(const TrainConfig& config, const Dataset& dataset, Replicas& replicas, ThreadPool& pool,
         std::size_t keep);

  /// Tests the model and adds a row. `train_loss` is the mean over the last round's samples.
  void test(const RunProgress& progress, double train_loss);

  /// The last test's, if there was one.
  std::optional<double> accuracy() const { return accuracy_; }

  /// metrics.jsonl is on the disk; its length.
  std::size_t sync_metrics();

  void write_model();

  /// summary.json. `extra` is added to it.
  void write_summary(const RunProgress& progress, const Tally& tally,
                     const std::vector<std::int64_t>& total_half_errors, const nlohmann::ordered_json& extra);

 private:
  const TrainConfig& config_;
  const Dataset& dataset_;
  Replicas& replicas_;
  ThreadPool& pool_;
  std::filesystem::path folder_;
  LineLog metrics_;
  std::optional<double> accuracy_;
};

/// A run's summary.json; null if it has none. Throws DataError if it cannot be read.
nlohmann::json read_summary(const std::filesystem::path& folder);

/// The table that ends a run, for people.
std::string format_summary(const nlohmann::json& summary);

/// Of one round: the mean over the samples of those that voted. NaN if nobody did.
double mean_loss(const std::vector<double>& losses, const std::vector<std::uint32_t>& batches);

/// What ends a run in a round in which nobody has a ballot to cast.
Error nobody_voted(const TrainConfig& config, std::uint64_t round);

}  // namespace signvote
