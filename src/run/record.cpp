#include "run/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/files.h"
#include "base/sha256.h"
#include "run/schedule.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

double bits_per_parameter(std::uint64_t bytes, std::uint64_t messages, std::size_t parameters,
                          bool full_precision) {
  if (messages == 0) return 0;
  if (full_precision) return 8 * sizeof(float);
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(messages) / static_cast<double>(parameters);
}

std::uint64_t sum(const std::vector<std::uint64_t>& numbers) {
  return std::reduce(numbers.begin(), numbers.end());
}

/// By worker, over the rounds that it voted in. Workers of a server may choose their batches.
std::vector<double> mean_batches(const RunProgress& progress) {
  std::vector<double> batches;
  for (std::size_t m = 0; m < progress.votes.size(); ++m)
    batches.push_back(static_cast<double>(progress.samples[m]) /
                      std::max(1.0, static_cast<double>(progress.votes[m])));
  return batches;
}

}  // namespace

MetricsRows rows_until(const fs::path& file, std::uint64_t round) {
  MetricsRows rows;
  if (!fs::exists(file)) return rows;
  const std::string text = read_text_file(file);
  for (std::size_t line = 1, begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
       ++line) {
    const auto row = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                           text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    const auto found = row.is_object() ? row.find("round") : row.end();
    if (!row.is_object() || found == row.end() || !found->is_number_unsigned())
      throw DataError(
          fmt::format("'{}' is damaged in line {}: it is not a row of metrics; mend the line, or "
                      "delete it, and start again",
                      file.string(), line));
    const auto of = found->get<std::uint64_t>();
    if (of > round) break;
    begin = rows.bytes = end + 1;
    rows.last_is_wanted = of == round;
  }
  return rows;
}

Record::Record(const TrainConfig& config, Trainee& trainee, std::uint64_t rounds)
    : config_(config),
      trainee_(trainee),
      folder_(config.out),
      rows_(rows_until(folder_ / "metrics.jsonl", rounds)),
      metrics_(folder_ / "metrics.jsonl", rows_.bytes) {}

void Record::test(const RunProgress& progress, double train_loss) {
  tested_ = trainee_.test();
  const Traffic& sent = progress.traffic;
  const std::size_t size = trainee_.parameters().size();
  nlohmann::ordered_json row = {{"round", progress.rounds}};
  if (accuracy()) row["test_accuracy"] = *accuracy();
  if (tested_) row["test_loss"] = tested_->loss;
  row["train_loss"] = train_loss;
  row["step"] = Schedule(config_).delta(progress.rounds - 1);
  row["bits_per_parameter_up"] =
      bits_per_parameter(sent.ballot_bytes, sent.ballots, size, config_.full_precision());
  row["bits_per_parameter_down"] =
      bits_per_parameter(sent.verdict_bytes, sent.verdicts, size, config_.full_precision());
  row["seconds"] = progress.seconds;
  metrics_.append(row.dump());
}

void Record::write_model() { trainee_.write_model(folder_); }

void Record::write_summary(const RunProgress& progress, const Tally& tally,
                           const std::vector<std::int64_t>& total_half_errors,
                           std::optional<double> outside_gradients_share) {
  // A run that was killed after its last save comes back here with nothing left to train and no test.
  if (!tested_) tested_ = trainee_.test();
  const Traffic& sent = progress.traffic;
  const std::size_t size = trainee_.parameters().size();
  nlohmann::ordered_json result = {{"method", config_.method},
                                   {"parameters", size},
                                   {"workers", *config_.workers},
                                   {"batches", config_.batches},
                                   {"engine", config_.engine},
                                   {"rounds", progress.rounds},
                                   {"step", *config_.step},
                                   {"step_schedule", config_.step_schedule},
                                   {"warmup_rounds", config_.warmup_rounds},
                                   {"weight_decay", config_.weight_decay},
                                   {"initial_rounds", *config_.initial_rounds},
                                   {"seed", config_.seed}};
  trainee_.describe(result);
  if (accuracy()) result["test_accuracy"] = *accuracy();
  if (tested_) result["test_loss"] = tested_->loss;
  result["model_sha256"] = sha256_hex(std::as_bytes(trainee_.parameters()));
  result["bits_per_parameter_up"] =
      bits_per_parameter(sent.ballot_bytes, sent.ballots, size, config_.full_precision());
  result["bits_per_parameter_down"] =
      bits_per_parameter(sent.verdict_bytes, sent.verdicts, size, config_.full_precision());
  result["absences"] = *config_.workers * progress.rounds - sum(progress.votes);
  result["samples_per_second"] = progress.training_seconds > 0
                                     ? static_cast<double>(sum(progress.samples)) / progress.training_seconds
                                     : 0;
  result["batches_used"] = mean_batches(progress);
  result["seconds"] = progress.seconds;
  if (!total_half_errors.empty()) {
    nlohmann::ordered_json rates;  // the mean error rate over the coordinates, as the tally sees it
    for (std::uint32_t m = 0; m < total_half_errors.size(); ++m)
      rates.push_back(static_cast<double>(total_half_errors[m]) / 2.0 /
                      std::max(1.0, static_cast<double>(tally.rounds_of(m))) / static_cast<double>(size));
    result["mean_error_rates"] = rates;
  }
  if (outside_gradients_share) result["outside_gradients_share"] = *outside_gradients_share;
  write_file_atomically(folder_ / "summary.json", result.dump(2) + "\n");
}

nlohmann::json read_summary(const fs::path& folder) {
  const fs::path file = folder / "summary.json";
  if (!fs::exists(file)) return nullptr;
  try {
    return nlohmann::json::parse(read_text_file(file));
  } catch (const nlohmann::json::exception&) {
    throw DataError(fmt::format("'{}' is damaged: it is not JSON", file.string()));
  }
}

std::string format_summary(const nlohmann::json& summary) {
  std::string tested;
  if (summary.contains("test_accuracy"))
    tested = fmt::format("test accuracy   {:.2f} %\n", 100 * summary.at("test_accuracy").get<double>());
  else if (summary.contains("test_loss"))
    tested = fmt::format("test loss       {:.4g}\n", summary.at("test_loss").get<double>());
  return fmt::format(
      "{}bits/parameter  {:.3f} up, {:.3f} down\nsamples/second  {:.0f}\n"
      "model sha256    {}\n",
      tested, summary.at("bits_per_parameter_up").get<double>(),
      summary.at("bits_per_parameter_down").get<double>(), summary.at("samples_per_second").get<double>(),
      summary.at("model_sha256").get<std::string>());
}

}  // namespace signvote
