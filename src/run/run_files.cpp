#include "run/run_files.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// None if there is none, or null, as which infinity and NaN are written.
std::optional<double> number(const json& row, const char* key, double low, double high) {
  const auto found = row.find(key);
  if (found == row.end() || found->is_null()) return std::nullopt;
  if (!found->is_number() || !(found->get<double>() >= low && found->get<double>() <= high))
    throw DataError(fmt::format("its {} makes no sense", key));
  return found->get<double>();
}

/// An empty text if there is no such file.
std::string text_of(const fs::path& file) {
  if (!fs::exists(file)) return {};
  if (!fs::is_regular_file(file))  // a device might never end
    throw DataError(fmt::format("'{}' is not a file; it must be one that a run wrote", file.string()));
  return read_text_file(file);
}

}  // namespace

MetricsRow metrics_row(const json& row) {
  constexpr double kMost = std::numeric_limits<double>::max();  // of a model that diverges, for one
  if (!row.is_object() || !row.contains("round") || !row["round"].is_number_unsigned() ||
      row["round"].get<std::uint64_t>() > 1'000'000'000)
    throw DataError("it has no round");
  MetricsRow result;
  result.round = row["round"];
  result.test_accuracy = number(row, "test_accuracy", 0, 1);
  result.test_loss = number(row, "test_loss", -kMost, kMost);
  result.train_loss = number(row, "train_loss", -kMost, kMost);
  result.step = number(row, "step", 0, kMost);
  result.bits_per_parameter_up = number(row, "bits_per_parameter_up", 0, 1e6).value_or(0);
  result.bits_per_parameter_down = number(row, "bits_per_parameter_down", 0, 1e6).value_or(0);
  result.seconds = number(row, "seconds", 0, kMost).value_or(0);
  if (const auto found = row.find("model_sha256"); found != row.end() && found->is_string())
    result.model_sha256 = *found;
  return result;
}

std::vector<MetricsRow> read_metrics(const fs::path& folder) {
  const fs::path file = folder / "metrics.jsonl";
  const std::string text = text_of(file);
  std::vector<MetricsRow> rows;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    try {
      MetricsRow row =
          metrics_row(json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                  text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false));
      if (!rows.empty() && row.round <= rows.back().round) throw DataError("its round is not after the last");
      rows.push_back(std::move(row));
    } catch (const DataError& error) {
      throw DataError(fmt::format("'{}' is damaged in line {}: {}; mend the line, or delete it",
                                  file.string(), rows.size() + 1, error.what()));
    }
  }
  return rows;
}

json read_summary(const fs::path& folder) {
  const fs::path file = folder / "summary.json";
  const std::string text = text_of(file);
  if (text.empty() && !fs::exists(file)) return nullptr;
  json summary = json::parse(text, nullptr, false);
  if (summary.is_discarded()) throw DataError(fmt::format("'{}' is damaged: it is not JSON", file.string()));
  return summary;
}

}  // namespace signvote
