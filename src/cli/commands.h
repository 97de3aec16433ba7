// What the subcommands do, once the command line is read. Results go to stdout, progress and remarks to
// stderr. Each returns the exit code; failures are thrown.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "learn/fetch.h"
#include "run/config.h"
#include "run/figure1.h"

namespace signvote::cli {

inline constexpr int kInterrupted = 130;  // as the shell reports Ctrl-C

/// Turns the first Ctrl-C into a request to stop; a second one ends the program at once.
void catch_interrupts();
const std::atomic<bool>& stop_requested();

void say(const std::string& problem);
int launched_ranks();
int run_train(TrainConfig config, bool resume);
int run_figure1(const Figure1Options& options);
int run_fetch(FetchOptions options);

struct EvalOptions {
  std::filesystem::path model;  // a run's folder, or a .pt file
  std::string data;             // the data set's folder; empty: the run's, or the cache
  bool json = false;
};
int run_eval(const EvalOptions& options);

struct CertsOptions {
  std::filesystem::path folder;
  std::vector<std::string> hosts;  // of the server
  std::vector<std::string> names;  // of the workers
  int ca_days = 3650;
  int days = 825;
};
int run_certs_new_ca(const CertsOptions& options);
int run_certs_server(const CertsOptions& options);
int run_certs_worker(const CertsOptions& options);

}  // namespace signvote::cli
