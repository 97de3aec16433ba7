#include "run/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/files.h"
#include "base/sha256.h"
#include "base/text.h"
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

/// A row of metrics.jsonl. A loss that is no number is null there.
BestTest test_of(const nlohmann::json& row) {
  BestTest test;
  test.round = row.at("round");
  if (const auto found = row.find("test_accuracy"); found != row.end() && found->is_number())
    test.accuracy = found->get<double>();
  const auto loss = row.find("test_loss");
  test.loss =
      loss != row.end() && loss->is_number() ? loss->get<double>() : std::numeric_limits<double>::infinity();
  if (const auto found = row.find("model_sha256"); found != row.end() && found->is_string())
    test.model_sha256 = *found;
  return test;
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

bool BestTest::add(const BestTest& test) {
  const bool better = accuracy && test.accuracy ? *test.accuracy > *accuracy : test.loss < loss;
  if (round != 0 && !better) {
    ++tests_since;
    return false;
  }
  *this = test;
  return true;
}

MetricsRows rows_until(const fs::path& file, std::uint64_t round) {
  MetricsRows rows;
  if (!fs::exists(file)) return rows;
  const std::string text = read_text_file(file);
  BestTest best;  // also of the rows that are left out
  bool left_out = false;
  for (std::size_t line = 1, begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
       ++line, begin = end + 1) {
    const auto row = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                           text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (!row.is_object() || !row.contains("round") || !row["round"].is_number_unsigned()) {
      if (left_out) break;
      throw DataError(
          fmt::format("'{}' is damaged in line {}: it is not a row of metrics; mend the line, or "
                      "delete it, and start again",
                      file.string(), line));
    }
    const BestTest test = test_of(row);
    const bool tested = row.contains("test_accuracy") || row.contains("test_loss");
    if (tested) best.add(test);
    left_out = left_out || test.round > round;
    if (left_out) continue;
    if (tested) rows.best.add(test);
    rows.bytes = end + 1;
    rows.last_is_wanted = test.round == round;
  }
  if (best.round != rows.best.round) rows.best = {};
  return rows;
}

Record::Record(const TrainConfig& config, Trainee& trainee, std::uint64_t rounds)
    : config_(config),
      trainee_(trainee),
      folder_(config.out),
      rows_(rows_until(folder_ / "metrics.jsonl", rounds)),
      best_(fs::exists(folder_ / best_file()) ? rows_.best : BestTest{}),
      last_row_(rows_.last_is_wanted ? std::optional(rounds) : std::nullopt),
      metrics_(folder_ / "metrics.jsonl", rows_.bytes) {}

MetricsRow Record::test(const RunProgress& progress, double train_loss, const ReportedTest* reported) {
  tested_ = trainee_.test();
  if (reported != nullptr) reported_ = *reported;
  last_row_ = progress.rounds;
  const Traffic& sent = progress.traffic;
  const std::size_t size = trainee_.parameters().size();
  nlohmann::ordered_json row = {{"round", progress.rounds}};
  if (reported != nullptr) {
    row["reported_by"] = reported->by;
    if (reported->accuracy) row["test_accuracy"] = *reported->accuracy;
    if (reported->loss) row["test_loss"] = *reported->loss;
  }
  if (accuracy()) row["test_accuracy"] = *accuracy();
  if (tested_) row["test_loss"] = tested_->loss;
  row["train_loss"] = train_loss;
  row["step"] = Schedule(config_).delta(progress.rounds - 1);
  row["bits_per_parameter_up"] =
      bits_per_parameter(sent.ballot_bytes, sent.ballots, size, config_.full_precision());
  row["bits_per_parameter_down"] =
      bits_per_parameter(sent.verdict_bytes, sent.verdicts, size, config_.full_precision());
  row["model_sha256"] = sha256_hex(std::as_bytes(trainee_.parameters()));
  row["seconds"] = progress.seconds;
  // Before the row: a best.pt that no row speaks of is written again, when the run goes on.
  if ((tested_ || reported != nullptr) && best_.add(test_of(row))) trainee_.write_model(folder_ / "best");
  metrics_.append(row.dump());
  return metrics_row(nlohmann::json::parse(row.dump()));  // as whoever reads the file will see it
}

std::string Record::best_file() const {
  const bool npy = !config_.has_network() && fs::path(parameters_copy(config_)).extension() == ".npy";
  return npy ? "best.npy" : kBestModel;
}

void Record::write_model() { trainee_.write_model(folder_ / "model"); }

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
  if (best_.round != 0) {
    nlohmann::ordered_json best = {{"round", best_.round}};
    if (best_.accuracy) best["test_accuracy"] = *best_.accuracy;
    if (std::isfinite(best_.loss)) best["test_loss"] = best_.loss;  // else only an accuracy was reported
    best["model_sha256"] = best_.model_sha256;
    best["file"] = best_file();
    result["best"] = best;
  }
  result["bits_per_parameter_up"] =
      bits_per_parameter(sent.ballot_bytes, sent.ballots, size, config_.full_precision());
  result["bits_per_parameter_down"] =
      bits_per_parameter(sent.verdict_bytes, sent.verdicts, size, config_.full_precision());
  if (config_.engine == "mpi") result["bytes_between_ranks"] = sent.rank_bytes;
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

std::optional<std::string> finished_already(const TrainConfig& config) {
  const nlohmann::json summary = read_summary(config.out);
  if (summary.is_null() || summary.value("rounds", std::uint64_t{0}) != config.rounds) return std::nullopt;
  TrainConfig longer = config;
  ++longer.rounds;
  return fmt::format("'{}' has finished its {}; {}", config.out, counted(config.rounds, "round"),
                     same_steps(config, longer, config.rounds)
                         ? "give --rounds with a larger number to go on"
                         : "for more, begin anew with a larger --rounds, because its steps would be others");
}

/// A line on the best model, if it is not the last one.
std::string format_best(const nlohmann::json& summary) {
  const auto best = summary.find("best");
  if (best == summary.end() || best->at("round") == summary.at("rounds")) return "";
  return fmt::format("best            {} in round {} ({})\n",
                     best->contains("test_accuracy")
                         ? fmt::format("{:.2f} %", 100 * best->at("test_accuracy").get<double>())
                         : fmt::format("{:.4g}", best->at("test_loss").get<double>()),
                     best->at("round").get<std::uint64_t>(), best->at("file").get<std::string>());
}

std::string format_summary(const nlohmann::json& summary) {
  std::string tested;
  if (summary.contains("test_accuracy"))
    tested = fmt::format("test accuracy   {:.2f} %\n", 100 * summary.at("test_accuracy").get<double>());
  else if (summary.contains("test_loss"))
    tested = fmt::format("test loss       {:.4g}\n", summary.at("test_loss").get<double>());
  return fmt::format(
      "{}{}bits/parameter  {:.3f} up, {:.3f} down\nsamples/second  {:.0f}\n"
      "model sha256    {}\n",
      tested, format_best(summary), summary.at("bits_per_parameter_up").get<double>(),
      summary.at("bits_per_parameter_down").get<double>(), summary.at("samples_per_second").get<double>(),
      summary.at("model_sha256").get<std::string>());
}

}  // namespace signvote
