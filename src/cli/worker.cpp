// signvote worker

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/numbers.h"
#include "cli/commands.h"
#include "cli/tls_flags.h"
#include "cli/values.h"
#include "engine/grpc/address.h"
#include "signvote/error.h"

namespace signvote::cli {
namespace {

struct WorkerFlags {
  TlsFlags tls{"--ca"};
  std::string connect{};
  std::string name{};
  std::string data{};
  std::string model{};
  std::string state{};
  std::uint32_t threads = 0;
  std::string batch{};
  std::string round_time{};
  std::string give_up{};
  bool evaluate = false;

  WorkerCommand read() const {
    WorkerCommand command;
    command.tls = tls.read();
    if (tls.insecure && name.empty())
      throw ConfigError("--insecure needs a --name, because there is no certificate that tells it");
    if (!tls.insecure && !name.empty())
      throw ConfigError("--name is only for --insecure, because the certificate tells it; leave it out");
    if (command.tls && !identity(command.tls->keys().certificate))
      throw DataError(fmt::format("the certificate '{}' must have one common name (CN), the worker's name",
                                  tls.certificate));
    connect_address(connect, command.tls.has_value());  // throws if it makes no sense
    command.connect = connect;
    command.name = name;
    command.data = data;
    command.model = model;
    command.state = state;
    command.threads = threads;
    read_batch(command);
    command.evaluate = evaluate;
    if (evaluate && (model.empty() || data.empty()))
      throw ConfigError("--evaluate needs a --model and --data to test it on");
    if (evaluate && !(batch.empty() && state.empty()))
      throw ConfigError("--evaluate computes no gradients; leave --batch and --state out");
    if (!give_up.empty()) command.give_up_seconds = parse_seconds("--give-up", give_up);
    return command;
  }

  void read_batch(WorkerCommand& command) const {
    if (batch == "auto") {
      if (round_time.empty()) throw ConfigError("--batch auto needs a --round-time, e.g. 5s");
      command.round_seconds = parse_seconds("--round-time", round_time);
      return;
    }
    if (!round_time.empty()) throw ConfigError("--round-time needs --batch auto");
    if (batch.empty()) return;
    command.batch = parse_number<std::uint32_t>(batch);
    if (command.batch.value_or(0) < 1)
      throw ConfigError(fmt::format("--batch is '{}'; write a number of samples, or auto", batch));
  }
};

}  // namespace

void add_worker(CLI::App& app, const Computing& computing, Action& action) {
  const auto flags = std::make_shared<WorkerFlags>();
  CLI::App* worker = app.add_subcommand("worker", "Compute gradients for a server elsewhere");
  worker->footer(
      "Examples:\n  signvote worker --connect server.example:7000 --cert worker-0.pem --key "
      "worker-0.key --ca ca.pem --batch 64\n"
      "  signvote worker --connect 127.0.0.1:7000 --insecure --name worker-0 --batch auto --round-time 5s\n"
      "  signvote worker --connect 127.0.0.1:7000 --insecure --name worker-3 --evaluate "
      "--model net.pt --data DIR");
  worker->add_option("--connect", flags->connect, "Address of the server")
      ->required()
      ->type_name("HOST:PORT");
  flags->tls.add_to(*worker, "the server's");
  worker
      ->add_option("--name", flags->name,
                   "This worker's name, with --insecure; otherwise its certificate tells it")
      ->type_name("NAME");
  worker->add_option("--data", flags->data, "Folder of the data set's files, or a text [the cache]")
      ->type_name("DIR|FILE");
  worker->add_option("--model", flags->model, "The model file, if the server trains one of its user's own")
      ->type_name("FILE.pt");
  worker
      ->add_option("--state", flags->state,
                   "Folder in which the worker keeps its memory, so that it goes on exactly after a kill "
                   "[nowhere: it then begins its memory anew]")
      ->type_name("DIR");
  worker->add_option("--batch", flags->batch, "Samples a round, or 'auto' [as the run's settings say]")
      ->type_name("NUMBER|auto");
  worker
      ->add_option("--round-time", flags->round_time,
                   "With --batch auto: how long a gradient may take, e.g. 5s")
      ->type_name("TIME");
  worker->add_flag(
      "--evaluate", flags->evaluate,
      "Never vote, but test the model every --eval-every rounds of a server that was started with "
      "--parameters, and so cannot");
  worker->add_option("--threads", flags->threads, "Threads, 0 for one per core [0]")
      ->check(CLI::Range(0, 1024).description(""))
      ->type_name("NUMBER");
  worker->add_option("--give-up", flags->give_up, "End after this long without a server [10m]")
      ->type_name("TIME");
  worker->callback(
      [=, &computing, &action] { action = [flags, &computing] { return computing.worker(flags->read()); }; });
}

}  // namespace signvote::cli
