// The commands that compute, read from the command line and checked. They need torch, gRPC or MPI, so only
// signvote-compute carries them out; signvote, which must start at once, hands them over to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "certs/certificates.h"
#include "report/dashboard_options.h"
#include "run/config.h"
#include "run/table_plans.h"

namespace signvote::cli {

struct TrainCommand {
  TrainConfig config;
  bool resume = false;  // the run in config.out
  std::optional<DashboardOptions> dashboard;
  bool tensorboard = false;
  std::vector<std::string> to_go_on;  // the arguments that go on with it once it has stopped
};

/// signvote reproduce figure1
struct Figure1Command {
  TrainConfig base;                    // what all cells share
  std::vector<std::string> panels;     // batch sizes
  std::vector<NamedSettings> methods;  // the first is the one that the others' leads are over
  unsigned seeds = 1;                  // from base.seed on
  std::filesystem::path out;
};

/// signvote reproduce table
struct TableCommand {
  TablePlan plan;    // without rows: the table of decoding, which trains nothing
  TrainConfig base;  // what all cells share
  unsigned seeds = 1;
  std::filesystem::path out;
};

struct EvalCommand {
  std::filesystem::path file;      // model.pt
  std::optional<TrainConfig> run;  // the settings it was trained with; none: the file tells the network
  std::string data;                // the data set's folder; empty: the run's, or the cache
  bool json = false;
};

struct ServerCommand {
  TrainConfig config;                          // its `out` is the state folder
  std::string listen;                          // HOST:PORT
  std::optional<TlsFiles> tls;                 // none: without TLS
  std::optional<std::filesystem::path> allow;  // see allow_list.h
  std::uint32_t quorum = 0;                    // 0: all workers
  double deadline_seconds = 0;                 // 0: a round closes as soon as the quorum has voted
  bool own_batches = false;
  std::uint64_t keep = UINT64_MAX;  // verdicts
  std::optional<int> metrics_port;  // 0: any
  std::optional<DashboardOptions> dashboard;
  bool tensorboard = false;
};

struct WorkerCommand {
  std::string connect;                 // HOST:PORT
  std::optional<TlsFiles> tls;         // none: without TLS
  std::string name;                    // only without TLS; else the certificate's
  std::string data;                    // the data set's folder or text; empty: the cache
  std::string model;                   // the model file, if the server's run trains one
  std::string state;                   // folder of what it remembers; empty: nowhere
  std::uint32_t threads = 0;           // 0: one per core
  std::optional<std::uint32_t> batch;  // samples a round; none: as the run's settings say
  double round_seconds = 0;            // > 0: the batch that takes this long, found by measuring
  bool evaluate = false;               // test the model instead of voting
  double give_up_seconds = 600;        // without a server
};

/// signvote journal DIR model
struct ModelCommand {
  TrainConfig config;
  std::filesystem::path journal;
  std::optional<std::uint64_t> round;  // none: the last
  std::filesystem::path out;
};

struct InspectCommand {
  TrainConfig config;
  std::filesystem::path run;                 // its folder
  std::optional<std::filesystem::path> out;  // the picture's folder; none: no picture
  bool json = false;
};

/// Each carries out a command and returns the exit code; failures are thrown.
struct Computing {
  std::function<int(const TrainCommand&)> train;
  std::function<int(const Figure1Command&)> figure1;
  std::function<int(const TableCommand&)> table;
  std::function<int(const EvalCommand&)> eval;
  std::function<int(const ServerCommand&)> server;
  std::function<int(const WorkerCommand&)> worker;
  std::function<int(const ModelCommand&)> model;
  std::function<int(const InspectCommand&)> inspect;
};

}  // namespace signvote::cli
