// What a run leaves in its folder while it goes and at its end: metrics.jsonl, model.pt, summary.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "engine/run_state.h"
#include "learn/dataset.h"
#include "learn/models.h"
#include "run/config.h"
#include "signvote/tally.h"
#include "base/thread_pool.h"

namespace signvote {

/// The rows of a metrics.jsonl up to some round.
struct MetricsRows {
  std::size_t bytes = 0;
  bool last_is_wanted = false;  // the last one is of that very round
};
/// A last line without its end, as a crash leaves it, is no row. Throws DataError that names the line if
/// any other is damaged.
MetricsRows rows_until(const std::filesystem::path& file, std::uint64_t round);

class Record {
 public:
  /// Goes on with metrics.jsonl, cut back to its rows up to round `rounds`. References must outlive this.
  /// Throws DataError that names the line if a row is damaged.
  Record(const TrainConfig& config, const Dataset& dataset, Replicas& replicas, ThreadPool& pool,
         std::uint64_t rounds);

  /// metrics.jsonl had a row of round `rounds`.
  bool tested() const { return rows_.last_is_wanted; }

  /// Tests the model and adds a row. `train_loss` is the mean over the last round's samples.
  void test(const RunProgress& progress, double train_loss);

  /// The last test's, if there was one.
  std::optional<double> accuracy() const { return accuracy_; }

  /// metrics.jsonl is on the disk.
  void sync() { metrics_.sync(); }

  void write_model();

  /// summary.json.
  void write_summary(const RunProgress& progress, const Tally& tally,
                     const std::vector<std::int64_t>& total_half_errors,
                     std::optional<double> outside_gradients_share);

 private:
  const TrainConfig& config_;
  const Dataset& dataset_;
  Replicas& replicas_;
  ThreadPool& pool_;
  std::filesystem::path folder_;
  MetricsRows rows_;
  LineLog metrics_;
  std::optional<double> accuracy_;
};

/// A run's summary.json; null if it has none. Throws DataError if it cannot be read.
nlohmann::json read_summary(const std::filesystem::path& folder);

/// The table that ends a run, for people.
std::string format_summary(const nlohmann::json& summary);

}  // namespace signvote
