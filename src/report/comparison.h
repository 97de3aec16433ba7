// Runs side by side: what is known of each, and the numbers by which they are compared. A run of several
// seeds is a group, and groups that belong into one picture are a panel. comparison_formats.h turns it into a
// page, Markdown or CSV.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace signvote {

/// Test accuracies that runs are timed to.
inline constexpr std::array kTargets = {0.90, 0.95, 0.98};

/// What SGD sends in a round, up and down: a float32 for every parameter.
inline constexpr double kFloatBits = 64;

struct ComparedTest {
  std::uint64_t round = 0;
  std::optional<double> accuracy;  // a share of 1
  std::optional<double> loss;
  double bits = 0;  // sent and received so far by a worker that has always voted, for each parameter
};

struct ComparedWorker {
  std::string name;  // its slot, and with a server whose that is
  double batch = 0;
  std::uint32_t rounds = 0;
  std::optional<double> error_rate;
  std::optional<double> weight;
  double say = 0;
  std::string mark;
};

struct ComparedRun {
  std::string folder;  // as it was given
  std::uint64_t seed = 0;
  std::uint64_t rounds_asked = 0;
  std::uint64_t rounds_done = 0;
  bool finished = false;
  std::vector<ComparedTest> tests;
  std::optional<std::uint64_t> parameters;  // none: nothing is saved yet
  std::optional<double> bits_per_parameter_up;
  std::optional<double> bits_per_parameter_down;
  double seconds = 0;
  std::optional<double> samples_per_second;
  std::string model_sha256;  // of the last test
  std::string best_sha256;   // of best.pt
  std::string command;       // that repeats it
  std::string command_note;
  std::string settings;  // its config.toml
  std::vector<ComparedWorker> workers;
  std::string workers_note;  // what the table does not say, or why there is none
};

/// Runs that differ in nothing but their seeds.
struct ComparedGroup {
  std::string label;                  // short, and the same in all panels for what belongs together
  std::string title;                  // for people
  unsigned style = 0;                 // of its lines, the same wherever the label is
  std::vector<std::string> settings;  // the values of Comparison::differing
  std::vector<ComparedRun> runs;
};

struct ComparedPanel {
  std::string title;  // empty if there is only one
  std::vector<ComparedGroup> groups;
};

struct ComparedSetting {
  std::string name;
  std::string help;
  std::string value;  // if it is the same in all runs
};

struct Comparison {
  std::vector<ComparedPanel> panels;
  std::vector<ComparedSetting> differing;
  std::vector<ComparedSetting> common;
};

/// The first test at `accuracy` or more.
const ComparedTest* first_at(const ComparedRun& run, double accuracy);
/// The test with the highest accuracy or, where there is none, with the lowest loss. Of equals the first.
const ComparedTest* best_test(const ComparedRun& run);
/// The mean over the runs of a group, at the rounds that all of them have tested.
std::vector<ComparedTest> mean_tests(const ComparedGroup& group);

/// As megabytes, if the number of parameters is known.
std::optional<double> megabytes(const ComparedRun& run, double bits);

/// All groups of all panels, in order.
std::vector<const ComparedGroup*> groups_of(const Comparison& comparison);
std::vector<const ComparedRun*> runs_of(const Comparison& comparison);
bool has_accuracy(const Comparison& comparison);
bool has_seeds(const Comparison& comparison);  // whether a group has several runs

/// "finished", or how far it has come.
std::string state_of(const ComparedRun& run);

/// One value of each run as a short text: "250", with several seeds "238 (225 to 250)" and, if some have
/// none, "225 (1 of 2 seeds)". `nothing` if none has one.
std::string mean_text(const std::vector<std::optional<double>>& values, int digits,
                      const std::string& nothing);

/// The rows of the tables of numbers: a heading, what it means, and the text for a group.
struct ComparedColumn {
  std::string heading;
  std::string help;
  std::vector<std::string> cells;  // of groups_of
};
std::vector<ComparedColumn> result_columns(const Comparison& comparison);

/// What a reader in a hurry should know, in sentences.
std::vector<std::string> findings(const Comparison& comparison);

}  // namespace signvote
