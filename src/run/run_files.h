// What a run has written for its user, read again: metrics.jsonl and summary.json. The files may come from
// elsewhere, so every number is checked. Does not use torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace signvote {

/// A row of metrics.jsonl. A loss that was infinite is left out.
struct MetricsRow {
  std::uint64_t round = 0;
  std::optional<double> test_accuracy;  // a share of 1
  std::optional<double> test_loss;
  std::optional<double> train_loss;
  std::optional<double> step;
  double bits_per_parameter_up = 0;
  double bits_per_parameter_down = 0;
  std::string model_sha256;
  double seconds = 0;
};

/// Throws DataError, which does not name the file, if it is no such row.
MetricsRow metrics_row(const nlohmann::json& row);

/// The rows of the run in `folder`; none if it has no metrics.jsonl yet. Ignores a last line without a
/// newline, which a crash leaves. Throws DataError that names the line if any other is damaged.
std::vector<MetricsRow> read_metrics(const std::filesystem::path& folder);

/// The summary.json of the run in `folder`; null if it has none. Throws DataError if it cannot be read.
nlohmann::json read_summary(const std::filesystem::path& folder);

}  // namespace signvote
