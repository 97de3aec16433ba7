// Values that make no sense, told with the flag and what would; bad_input_test.py has one of each for the
// program.
#include "run/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/files.h"
#include "signvote/error.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

/// What is said of --name text; nothing if it is taken.
std::string refusal(const std::string& name, const std::string& text) {
  const auto option = std::ranges::find(train_options(), name, &TrainOption::name);
  if (option == train_options().end()) return "there is no option " + name;
  TrainConfig config;
  try {
    option->set(config, text);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

void expect_refused(const std::string& name, const std::vector<std::string>& texts,
                    const std::string& advice) {
  for (const std::string& text : texts) {
    const std::string said = refusal(name, text);
    EXPECT_TRUE(said.starts_with("--" + name + " is '" + text + "'; " + advice)) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

TEST(Config, whole_numbers) {
  expect_refused("rounds", {"0", "-1", "abc", "1.5", "", " 1", "1 ", "1e3", "99999999999999999999"},
                 "it must be a whole number from 1");
  expect_refused("seed", {"-1"}, "it must be a whole number from 0");
  EXPECT_EQ(refusal("rounds", "1"), "");
}

TEST(Config, numbers) {
  expect_refused("step", {"0", "nan", "inf", "-1e-4", "", "x", "1e-4x"}, "it must be a number");
  EXPECT_EQ(refusal("step", "1e-4"), "");
}

TEST(Config, a_server_does_not_tell_workers_its_paths) {
  TrainConfig config;
  config.data = "/home/alice/secret";
  config.out = "/home/alice/run";
  resolve(config);
  const std::string told = settings_for_workers(config);
  EXPECT_EQ(told.find("alice"), std::string::npos) << told;
  TrainConfig read;
  parse_config(told, "told", read);
  resolve(read);
  EXPECT_EQ(read.run_id(), config.run_id()) << "the rest is all there";
}

TEST(Config, what_is_given_replaces_what_was_known_of_it) {
  const TemporaryFolder folder;
  TrainConfig config;
  const auto read = [&](const std::string& text) {
    write_file_atomically(folder.path() / "settings.toml", text);
    read_config(folder.path() / "settings.toml", config);
  };
  read("dataset = '/'\nmodel = 'a.pt'\nmodel_file_sha256 = 'x'\nbatches = '3x4'");
  config.data = "/somewhere";
  config.workers = 3;
  config.initial_rounds = 7;
  read("dataset = '/'\nmodel = 'b.pt'\nworkers = 2\nmethod = 'mv'");
  EXPECT_EQ(config.data, "");
  EXPECT_EQ(config.model_file_sha256, "");
  EXPECT_EQ(config.batches, "");
  EXPECT_EQ(config.workers, 2);
  EXPECT_FALSE(config.initial_rounds);
  // Together they do not replace each other.
  read("data = 'd'\ndataset = '/'\nmodel = 'c.pt'\nmodel_file_sha256 = 'y'\ninitial_rounds = 7");
  EXPECT_EQ(config.data, "d");
  EXPECT_EQ(config.model_file_sha256, "y");
  // The settings of a row or method of a table replace nothing that was given for all of them.
  parse_config("method = 'it'", "method it", config);
  EXPECT_EQ(config.initial_rounds, 7);
}

TEST(Config, the_first_setting_that_changes_is_told_with_both_values) {
  TrainConfig there;
  resolve(there);
  TrainConfig wanted = there;
  EXPECT_EQ(first_change(there, wanted), std::nullopt);
  wanted.rounds = 7;
  wanted.threads = 3;
  EXPECT_EQ(first_change(there, wanted), std::nullopt) << "these leave the result as it is";
  wanted.attack = "flip:1";
  EXPECT_EQ(first_change(there, wanted), "attack = (none), not flip:1");
  wanted.seed = 4;
  wanted.method = "mv";
  EXPECT_EQ(first_change(there, wanted), "method = agree, not mv");
}

TEST(Config, the_default_folder_tells_runs_apart) {
  const auto folder = [](const std::string& toml) {
    TrainConfig config;
    parse_config(toml, "given", config);
    resolve(config);
    return config.out;
  };
  EXPECT_EQ(folder(""), "runs/mnist-cnn-agree-mode1-seed0");
  EXPECT_EQ(folder("batch_mode = 4\nmethod = 'mv'\nseed = 3"), "runs/mnist-cnn-mv-mode4-seed3");
  EXPECT_EQ(folder("batches = '14x4,904'"), "runs/mnist-cnn-agree-mode4-seed0");
  EXPECT_EQ(folder("batches = '3x4,60'\npartition = 'dirichlet:0.3'\nstep = 1e-3\nrounds = 50"),
            "runs/mnist-cnn-agree-3x4-60-partition-dirichlet-0.3-rounds-50-step-0.001-seed0");
  EXPECT_EQ(folder("threads = 2\neval_every = 3"), folder(""));
  std::string batches = "1";
  for (int i = 2; i < 200; ++i) batches.append(",").append(std::to_string(i));
  EXPECT_LT(folder("batches = '" + batches + "'").size(), 200U);
  EXPECT_NE(folder("batches = '" + batches + "'"), folder("batches = '" + batches + ",7'"));
}

TEST(Config, batches) {
  expect_refused("batches", {"", "x4", "4x", "0", "4,,4", "4,", "4x0", "0x4", "4x4x4", "-1", "4.5"},
                 "write sizes like 14x4,904");
  for (const char* text : {"4", "14x4,904", "2x3,2x3"}) EXPECT_EQ(refusal("batches", text), "");
}

TEST(Config, absences) {
  expect_refused(
      "absent",
      {"x", "1", "1@", "@3", "1@0", "1@5-3", "1@3-", "1@-3", "1@3,,", "-1@3", "1@3-4-5", "1 @3", "1@3,"},
      "write it like 2@5-9,0@12");
  for (const char* text : {"", "1@3", "1@3-3", "2@5-9,0@12"}) EXPECT_EQ(refusal("absent", text), "");
}

TEST(Config, one_worker_is_told_as_one) {
  const auto refusal_of = [](const char* toml) -> std::string {
    TrainConfig config;
    parse_config(toml, "given", config);
    try {
      resolve(config);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal_of("batches = '4'\nattack = 'flip:2'"),
            "--attack is 'flip:2', but there is only 1 worker");
  EXPECT_EQ(refusal_of("batches = '4,4'\nattack = 'flip:3'"),
            "--attack is 'flip:3', but there are only 2 workers");
  EXPECT_EQ(refusal_of("batches = '4'\nworkers = 2"),
            "--workers is 2 but the batches 4 are those of 1 worker; leave one of them out");
}

TEST(Config, the_initial_rounds_follow_from_the_method) {
  const auto resolved = [](const std::string& method, std::optional<std::uint32_t> given) {
    TrainConfig config;
    config.method = method;
    config.initial_rounds = given;
    resolve(config);
    TrainConfig again;  // what config.toml tells
    parse_config(write_config(config), "written", again);
    resolve(again);
    EXPECT_EQ(again.run_id(), config.run_id());
    return config.tally_options(10).initial_rounds;
  };
  EXPECT_EQ(resolved("it", {}), 100U);
  EXPECT_EQ(resolved("mv", {}), 100U);
  EXPECT_EQ(resolved("shrink", {}), 3U);
  EXPECT_EQ(resolved("shrink", 7), 7U);
  EXPECT_NE(refusal("prior_rounds", "0"), "");
  EXPECT_NE(refusal("prior_rounds", "16384"), "");
}

TEST(Config, choices) {
  for (const char* name : {"method", "engine", "loss"}) expect_refused(name, {"other", "", "LOCAL"}, "take ");
  // These may be paths, which are looked up when all is known.
  const std::string long_name(300, 'x');
  for (const auto& [name, value] : {std::pair("dataset", std::string("other")),
                                    {"dataset", "/"},
                                    {"dataset", long_name},
                                    {"model", "other"},
                                    {"model", long_name}}) {
    TrainConfig config;
    (name == std::string("model") ? config.model : config.dataset) = value;
    try {
      resolve(config);
      FAIL() << name;
    } catch (const ConfigError& error) {
      EXPECT_TRUE(std::string(error.what())
                      .starts_with(std::string("--") + name + " is '" + value + "', which is neither"))
          << error.what();
    }
  }
}

}  // namespace
}  // namespace signvote
