// Folders of runs, as a comparison reads them: what belongs together, what differs, and what cannot be read.
#include "run/compare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files.h"
#include "report/comparison_formats.h"
#include "signvote/error.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

/// A run that has tested twice, and saved nothing.
void write_run(const fs::path& folder, const std::string& settings, bool finished = true,
               const std::string& batches = "2x4") {
  fs::create_directories(folder);
  write_file_atomically(folder / "config.toml",
                        "batches = '" + batches + "'\nrounds = 50\neval_every = 25\n" + settings);
  std::string rows;
  for (const int round : {25, 50})
    rows += fmt::format(
        "{{\"round\":{},\"test_accuracy\":0.9{},\"test_loss\":0.1,\"bits_per_parameter_up\":0.75,"
        "\"bits_per_parameter_down\":0.5,\"model_sha256\":\"ab{}\",\"seconds\":{}}}\n",
        round, round / 10, round, round);
  write_file_atomically(folder / "metrics.jsonl", rows);
  if (finished)
    write_file_atomically(folder / "summary.json",
                          std::string_view("{\"rounds\":50,\"samples_per_second\":100.5}"));
}

std::vector<std::string> names(const std::vector<ComparedSetting>& settings) {
  std::vector<std::string> result;
  for (const ComparedSetting& setting : settings) result.push_back(setting.name);
  return result;
}

std::string error_of(const std::vector<fs::path>& folders) {
  try {
    compare_runs(folders);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Compare, only_the_settings_that_differ_are_listed) {
  const TemporaryFolder folder;
  write_run(folder / "first", "method = 'it'\nstep = 1e-3\nthreads = 1\n");
  write_run(folder / "second", "method = 'it'\nstep = 2e-3\nthreads = 7\nseed = 3\n");
  const Comparison comparison = compare_runs({folder / "first", fs::path(folder / "second") / ""});
  ASSERT_EQ(comparison.panels.size(), 1U);
  EXPECT_EQ(names(comparison.differing), std::vector<std::string>{"step"});
  const auto groups = groups_of(comparison);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0]->settings, std::vector<std::string>{"0.001"});
  EXPECT_EQ(groups[1]->settings, std::vector<std::string>{"0.002"});
  EXPECT_EQ(groups[1]->label, "second");
  EXPECT_EQ(groups[1]->runs[0].seed, 3U);
  const auto common = names(comparison.common);
  EXPECT_NE(std::ranges::find(common, "method"), common.end());
  EXPECT_EQ(std::ranges::find(common, "threads"), common.end());
}

TEST(Compare, a_run_is_read_as_it_was_written) {
  const TemporaryFolder folder;
  write_run(folder / "run", "method = 'mv'\n");
  const Comparison comparison = compare_runs({folder / "run"});
  const ComparedRun& run = *runs_of(comparison).front();
  EXPECT_TRUE(run.finished);
  EXPECT_EQ(run.rounds_done, 50U);
  ASSERT_EQ(run.tests.size(), 2U);
  EXPECT_DOUBLE_EQ(*run.tests[1].accuracy, 0.95);
  EXPECT_DOUBLE_EQ(run.tests[1].bits, 50 * 1.25);
  EXPECT_EQ(run.model_sha256, "ab50");
  EXPECT_EQ(run.best_sha256, "ab50");
  EXPECT_DOUBLE_EQ(*run.samples_per_second, 100.5);
  EXPECT_FALSE(run.parameters);
  EXPECT_EQ(run.command, "signvote train --out OTHER --method mv --batches 2x4 --rounds 50");
  EXPECT_EQ(run.workers_note, "Nothing is saved of it yet, so this is not known.");
}

TEST(Compare, seeds_are_one_group_and_other_settings_another) {
  const TemporaryFolder folder;
  for (const int seed : {0, 1, 2})
    write_run(folder / fmt::format("a-seed{}", seed), fmt::format("seed = {}\n", seed));
  write_run(folder / "b", "method = 'mv'\n", false);
  const Comparison comparison =
      compare_runs({folder / "a-seed0", folder / "b", folder / "a-seed1", folder / "a-seed2", folder / "b"});
  const auto groups = groups_of(comparison);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0]->label, "a");
  EXPECT_EQ(groups[0]->runs.size(), 3U);
  EXPECT_EQ(groups[1]->runs.size(), 1U);  // named twice
  EXPECT_FALSE(groups[1]->runs[0].finished);
}

TEST(Compare, cells_of_reproduce_are_panels_of_methods) {
  const TemporaryFolder folder;
  for (const char* mode : {"1", "4"})
    for (const char* method : {"it", "mv"})
      for (const int seed : {0, 1})
        write_run(folder / "out" / "cells" / fmt::format("mode{}-{}-seed{}", mode, method, seed),
                  fmt::format("method = '{}'\nseed = {}\n", method, seed), true,
                  mode == std::string("1") ? "15x64" : "14x4,904");
  const Comparison comparison = compare_runs({folder / "out"});
  ASSERT_EQ(comparison.panels.size(), 2U);
  EXPECT_EQ(comparison.panels[1].title, "Mode 4 (batches 14x4,904)");
  ASSERT_EQ(comparison.panels[0].groups.size(), 2U);
  EXPECT_EQ(comparison.panels[0].groups[0].title, "signSGD-MV (mv)");
  EXPECT_EQ(comparison.panels[0].groups[0].runs.size(), 2U);
  EXPECT_EQ(comparison.panels[0].groups[0].style, comparison.panels[1].groups[0].style);
  EXPECT_EQ(runs_of(comparison).size(), 8U);
  EXPECT_FALSE(comparison_html(comparison).empty());
}

TEST(Compare, what_cannot_be_read_is_named) {
  const TemporaryFolder folder;
  EXPECT_NE(error_of({folder / "nowhere"}).find("nowhere' is no folder"), std::string::npos);
  fs::create_directories(folder / "empty");
  EXPECT_NE(error_of({folder / "empty"}).find("holds no run"), std::string::npos);
  write_run(folder / "all/one", "");
  EXPECT_NE(error_of({folder / "all"}).find("give the runs in it, such as"), std::string::npos);
  fs::create_directories(folder / "begun/cells");
  EXPECT_NE(error_of({folder / "begun"}).find("has no cell yet"), std::string::npos);

  const auto damaged = [&](const char* file, const std::string& content, const std::string& says) {
    const fs::path run = folder / "all/one";
    const std::string before = fs::exists(run / file) ? read_text_file(run / file) : "";
    write_file_atomically(run / file, content);
    const std::string error = error_of({run});
    EXPECT_NE(error.find(run.string()), std::string::npos) << error;
    EXPECT_NE(error.find(says), std::string::npos) << error;
    write_file_atomically(run / file, before);
  };
  damaged("config.toml", "rounds = ", "config.toml:1");
  damaged("config.toml", "batches = 'x'", "--batches");
  damaged("metrics.jsonl", "{\"round\":25}\nrubbish\n", "line 2");
  damaged("metrics.jsonl", "{\"round\":25,\"test_accuracy\":98}\n", "test_accuracy makes no sense");
  damaged("metrics.jsonl", "{\"round\":25}\n{\"round\":25}\n", "not after the last");
  damaged("summary.json", "{", "not JSON");
  damaged("summary.json", "{\"rounds\":\"all\"}", "rounds");
  EXPECT_EQ(error_of({folder / "all/one"}), "none");  // all is mended
  damaged("checkpoint.bin", "rubbish", "checkpoint.bin");

  fs::remove(folder / "all/one/checkpoint.bin");
  fs::remove(folder / "all/one/metrics.jsonl");
  fs::create_symlink("/dev/zero", folder / "all/one/metrics.jsonl");
  EXPECT_NE(error_of({folder / "all/one"}).find("is not a file"), std::string::npos);
}

TEST(Compare, half_a_row_and_no_row_are_no_errors) {
  const TemporaryFolder folder;
  write_run(folder / "run", "");
  const std::string rows = read_text_file(folder / "run/metrics.jsonl");
  write_file_atomically(folder / "run/metrics.jsonl", rows.substr(0, rows.size() - 20));
  EXPECT_EQ(runs_of(compare_runs({folder / "run"}))[0]->tests.size(), 1U);
  fs::remove(folder / "run/metrics.jsonl");
  fs::remove(folder / "run/summary.json");
  const Comparison comparison = compare_runs({folder / "run"});
  EXPECT_EQ(state_of(*runs_of(comparison)[0]), "not finished: 0 of 50 rounds so far");
  EXPECT_NE(comparison_html(comparison).find("nothing to draw"), std::string::npos);
  EXPECT_FALSE(comparison_markdown(comparison).empty());
  EXPECT_FALSE(comparison_csv(comparison).empty());
}

}  // namespace
}  // namespace signvote
