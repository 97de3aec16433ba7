// What the subcommands do, once the command line is read. Results go to stdout, progress and remarks to
// stderr. Each returns the exit code; failures are thrown.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "learn/fetch.h"
#include "run/config.h"
#include "run/figure1.h"

namespace signvote::cli {

inline constexpr int kInterrupted = 130;  // as the shell reports Ctrl-C

int run_train(TrainConfig config, bool resume);
int run_figure1(const Figure1Options& options);
int run_fetch(FetchOptions options);

struct EvalOptions {
  std::filesystem::path model;  // a run's folder, or a .pt file
  std::string data;             // the data set's folder; empty: the run's, or the cache
  bool json = false;
};
int run_eval(const EvalOptions& options);

}  // namespace signvote::cli
