// signvote server

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/numbers.h"
#include "cli/commands.h"
#include "cli/dashboard_flags.h"
#include "cli/settings_flags.h"
#include "cli/tls_flags.h"
#include "cli/values.h"
#include "engine/grpc/address.h"
#include "engine/grpc/allow_list.h"
#include "run/audit.h"
#include "signvote/error.h"

namespace signvote::cli {
namespace {

namespace fs = std::filesystem;

/// "10/15" of a run with 15 workers.
std::uint32_t parse_quorum(const std::string& text, std::uint32_t workers) {
  const std::size_t slash = text.find('/');
  const auto quorum = parse_number<std::uint32_t>(text.substr(0, slash));
  const auto of = slash == std::string::npos ? workers : parse_number<std::uint32_t>(text.substr(slash + 1));
  if (!quorum || of != workers || *quorum < 1 || *quorum > workers)
    throw ConfigError(fmt::format("--quorum is '{}'; write K/{} with K from 1 to {}, the number of workers",
                                  text, workers, workers));
  return *quorum;
}

struct ServerFlags {
  SettingsFlags settings{};
  DashboardFlags dashboard{};
  TlsFlags tls{"--client-ca"};
  std::string listen{};
  std::string state{};
  std::string allow{};
  std::string quorum{};
  std::string deadline{};
  std::string keep{};
  bool own_batches = false;
  std::string metrics_port{};
  bool tensorboard = false;

  ServerCommand read() const {
    ServerCommand command;
    command.config = read_settings();
    command.tls = tls.read();
    command.listen = listen;
    command.metrics_port = read_metrics_port(listen_address(listen, command.tls.has_value()).port);
    const std::uint32_t workers = *command.config.workers;
    if (!quorum.empty()) command.quorum = parse_quorum(quorum, workers);
    if (!deadline.empty()) {
      if (quorum.empty() || command.quorum == workers)
        throw ConfigError(
            "--deadline needs a smaller --quorum: with all workers a round waits for all of them");
      command.deadline_seconds = parse_seconds("--deadline", deadline);
    }
    if (!keep.empty()) command.keep = parse_whole("--keep", keep);
    command.own_batches = own_batches;
    command.dashboard = dashboard.read(state, command.tls);
    command.tensorboard = tensorboard;
    if (!allow.empty()) command.allow = allow;
    AllowList(command.allow, workers);  // throws if the file makes no sense
    return command;
  }

  TrainConfig read_settings() const {
    TrainConfig config;
    const bool again = fs::exists(fs::path(state) / "config.toml");
    if (again) config = load_server_run(state);
    const TrainConfig there = config;
    settings.apply_to(config);
    config.engine = "grpc";
    config.out = state;
    resolve(config);
    if (const auto change = again ? first_change(there, config) : std::nullopt)
      throw ConfigError(fmt::format(
          "'{}' holds a run of other settings: {}; leave it out to go on with that run, or choose "
          "another --state",
          state, *change));
    return config;
  }

  /// None if it is off.
  std::optional<int> read_metrics_port(int listen_port) const {
    if (metrics_port == "off") return std::nullopt;
    if (metrics_port.empty()) {
      if (listen_port == 65535)
        throw ConfigError(
            "--listen has the last port, 65535, so there is no next one; give a --metrics-port");
      return listen_port == 0 ? 0 : listen_port + 1;
    }
    const auto port = parse_number<int>(metrics_port);
    if (!port || *port < 0 || *port > 65535)
      throw ConfigError(fmt::format("--metrics-port is '{}'; write a port, or off", metrics_port));
    return port;
  }
};

}  // namespace

void add_server(CLI::App& app, const Computing& computing, Action& action) {
  const auto flags = std::make_shared<ServerFlags>();
  CLI::App* server = app.add_subcommand("server", "Run the tally for workers on other machines");
  server->footer(
      "Examples:\n  signvote server --config run.toml --listen 0.0.0.0:7000 --cert server.pem --key "
      "server.key \\\n    --client-ca ca.pem --state runs/elastic\n"
      "  signvote server --batches 14x4,904 --quorum 10/15 --deadline 30s --listen 127.0.0.1:7000 --insecure "
      "--state runs/try\n\n"
      "When it is started again with the same --state, it goes on where it was, even after kill -9.");
  server->add_option("--listen", flags->listen, "Address to listen on; port 0 takes a free one")
      ->required()
      ->type_name("HOST:PORT");
  server->add_option("--state", flags->state, "Folder of the run and its journal")
      ->required()
      ->type_name("DIR");
  flags->tls.add_to(*server, "the workers'");
  server
      ->add_option("--allow", flags->allow,
                   "TOML file with a line NAME = WORKER for every worker; read again when it changes "
                   "[worker-0, worker-1, ...]")
      ->type_name("FILE");
  server->add_option("--quorum", flags->quorum, "Close a round when K of the M workers have voted [M/M]")
      ->type_name("K/M");
  server
      ->add_option("--deadline", flags->deadline,
                   "How long a round stays open for workers beyond the quorum, e.g. 30s [0]")
      ->type_name("TIME");
  server->add_option("--keep", flags->keep, "How many verdicts the journal keeps, at least [all]")
      ->type_name("NUMBER");
  server->add_flag("--own-batches", flags->own_batches,
                   "Workers may use other batches than the settings say (signvote worker --batch)");
  server
      ->add_option("--metrics-port", flags->metrics_port,
                   "Loopback port of /metrics and /healthz, or 'off' [the port after --listen's]")
      ->type_name("PORT");
  flags->dashboard.add_to(*server);
  server->add_flag("--tensorboard", flags->tensorboard,
                   "Write metrics for TensorBoard too, to DIR/tensorboard (see: tensorboard --logdir DIR)");
  flags->settings.add_config_file_to(*server);
  flags->settings.add_to(*server, {}, {"engine", "out"});
  server->callback(
      [=, &computing, &action] { action = [flags, &computing] { return computing.server(flags->read()); }; });
}

}  // namespace signvote::cli
