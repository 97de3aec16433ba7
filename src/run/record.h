// The files that a run writes for its user: metrics.jsonl and best.pt as it goes, the model and summary.json
// at its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "engine/run_state.h"
#include "learn/evaluate.h"
#include "run/config.h"
#include "run/run_files.h"
#include "run/trainee.h"
#include "signvote/tally.h"

namespace signvote {

/// The file of the best model; best.npy if the first parameters came as .npy.
inline constexpr const char* kBestModel = "best.pt";

/// The best test of a run: the highest accuracy, or the lowest loss where there is no accuracy.
struct BestTest {
  std::uint64_t round = 0;  // 0: there is none yet
  std::optional<double> accuracy;
  double loss = 0;
  std::string model_sha256;
  std::uint64_t tests_since = 0;

  /// Takes the next test. Returns true if it is the best so far; of equals the first is.
  bool add(const BestTest& test);
};

/// The rows of a metrics.jsonl up to some round.
struct MetricsRows {
  std::size_t bytes = 0;
  bool last_is_wanted = false;  // the last of these rows is of that round
  BestTest best{};              // none, if a row that is left out is better: best.pt may be of that one
};
/// Ignores a last line without a newline, which a crash leaves. Throws DataError that names the line if any
/// other is damaged.
MetricsRows rows_until(const std::filesystem::path& file, std::uint64_t round);

class Record {
 public:
  /// Continues metrics.jsonl after cutting off the rows beyond round `rounds`. References must outlive
  /// this. Throws DataError that names the line if a row is damaged.
  Record(const TrainConfig& config, Trainee& trainee, std::uint64_t rounds);

  /// True if the last row of metrics.jsonl is of this round.
  bool has_row(std::uint64_t round) const { return last_row_ == round; }

  /// Tests the model, if it can be tested, or takes what a worker has `reported` of it, and adds a row.
  /// Writes best.pt if this is the best test so far. `train_loss` is the mean over the last round's samples.
  /// Returns the row.
  MetricsRow test(const RunProgress& progress, double train_loss, const ReportedTest* reported = nullptr);

  /// The accuracy in the last test, if there was one and y is a class.
  std::optional<double> shown_accuracy() const { return tested_ ? accuracy() : reported_.accuracy; }
  /// The loss in the last test, if there was one without an accuracy.
  std::optional<double> shown_test_loss() const {
    if (shown_accuracy()) return std::nullopt;
    return tested_ ? std::optional(tested_->loss) : reported_.loss;
  }

  /// The tests since the best one.
  std::uint64_t tests_since_best() const { return best_.tests_since; }

  /// When this returns, metrics.jsonl is on the disk.
  void sync() { metrics_.sync(); }

  void write_model();

  /// Writes summary.json.
  void write_summary(const RunProgress& progress, const Tally& tally,
                     const std::vector<std::int64_t>& total_half_errors,
                     std::optional<double> outside_gradients_share);

 private:
  std::optional<double> accuracy() const { return tested_ ? tested_->accuracy() : std::nullopt; }
  std::string best_file() const;

  const TrainConfig& config_;
  Trainee& trainee_;
  std::filesystem::path folder_;
  MetricsRows rows_;
  BestTest best_;
  std::optional<std::uint64_t> last_row_;
  LineLog metrics_;
  std::optional<Evaluation> tested_;  // the last test, if the run can test
  ReportedTest reported_{};           // otherwise the last that a worker told
};

/// One line that says so, and what to do for more, if the run in config.out has finished its rounds.
std::optional<std::string> finished_already(const TrainConfig& config);

/// The table for people that is shown at the end of a run.
std::string format_summary(const nlohmann::json& summary);

}  // namespace signvote
