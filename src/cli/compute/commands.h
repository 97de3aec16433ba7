// The commands that compute, carried out. Results go to stdout, progress and remarks to stderr. Each returns
// the exit code; failures are thrown.
#pragma once

#include "cli/computing.h"

namespace signvote::cli {

int run_train(const TrainCommand& command);
int run_figure1(const Figure1Command& command);
int run_table(const TableCommand& command);
int run_eval(const EvalCommand& command);
int run_server(const ServerCommand& command);
int run_worker(const WorkerCommand& command);
int run_model(const ModelCommand& command);
int run_inspect(const InspectCommand& command);

}  // namespace signvote::cli
