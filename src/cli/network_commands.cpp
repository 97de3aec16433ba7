#include "cli/network_commands.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/files.h"
#include "base/process.h"
#include "base/sha256.h"
#include "cli/commands.h"
#include "engine/grpc/certificates.h"
#include "journal/journal.h"
#include "learn/dataset.h"
#include "learn/model_file.h"
#include "engine/grpc/allow_list.h"
#include "run/audit.h"
#include "run/record.h"
#include "run/server.h"
#include "run/worker.h"
#include "signvote/error.h"
#include "signvote/version.h"

namespace signvote::cli {
namespace {

namespace fs = std::filesystem;

/// "30s", "1.5m", "200ms" or "30" in seconds.
double parse_seconds(const std::string& flag, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string unit(stop, end);
  const double factor = unit.empty() || unit == "s" ? 1
                        : unit == "ms"              ? 1e-3
                        : unit == "m"               ? 60
                        : unit == "h"               ? 3600
                                                    : 0;
  if (error != std::errc{} || factor == 0 || !(value > 0) || value * factor > 1e9)
    throw ConfigError(fmt::format("{} is '{}'; write a time like 30s, 500ms or 5m", flag, text));
  return value * factor;
}

/// CLI11 would take -1 for 2^64 - 1.
std::uint64_t parse_whole(const std::string& flag, const std::string& text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end)
    throw ConfigError(fmt::format("{} is '{}'; write a whole number, 0 or more", flag, text));
  return value;
}

/// "10/15" of a run with 15 workers.
std::uint32_t parse_quorum(const std::string& text, std::uint32_t workers) {
  std::uint32_t quorum = 0;
  std::uint32_t of = workers;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, quorum);
  if (error == std::errc{} && stop != end && *stop == '/') {
    const auto rest = std::from_chars(stop + 1, end, of);
    stop = rest.ptr;
    error = rest.ec;
  }
  if (error != std::errc{} || stop != end || of != workers || quorum < 1 || quorum > workers)
    throw ConfigError(fmt::format("--quorum is '{}'; write K/{} with K from 1 to {}, the number of workers",
                                  text, workers, workers));
  return quorum;
}

struct TlsFlags {
  std::string certificate;
  std::string key;
  std::string authority;
  bool insecure = false;

  void add_to(CLI::App& command, const std::string& authority_flag, const std::string& whose) {
    command.add_option("--cert", certificate, "Certificate, PEM")->type_name("FILE");
    command.add_option("--key", key, "Its private key, PEM")->type_name("FILE");
    command.add_option(authority_flag, authority, "Who signs " + whose + " certificates, PEM")
        ->type_name("FILE");
    command.add_flag("--insecure", insecure, "Without TLS; on loopback addresses only");
  }

  /// Fills in keys and authority, or leaves both out.
  void read(std::optional<KeyPair>& keys, std::string& pem, const std::string& authority_flag) const {
    const bool any = !certificate.empty() || !key.empty() || !authority.empty();
    if (insecure && any)
      throw ConfigError(fmt::format(
          "--insecure does without --cert, --key and {}; leave one or the other out", authority_flag));
    if (insecure) return;
    if (certificate.empty() || key.empty() || authority.empty())
      throw ConfigError(
          fmt::format("--cert, --key and {} are needed (signvote certs --help shows how to make them); on a "
                      "loopback address --insecure does without",
                      authority_flag));
    keys = load_key_pair(certificate, key);
    pem = load_authority(authority);
  }
};

/// The settings of the run in a server's --state. Throws ConfigError if it is none, DataError if its journal
/// is not what it was: a server may not begin anew there.
TrainConfig load_state(const fs::path& state) {
  TrainConfig config = load_run(state);
  const fs::path journal = state / "journal";
  if (!fs::exists(journal))
    throw ConfigError(
        fmt::format("'{}' holds a run without a journal; is it a server's --state?", state.string()));
  if (!Journal::exists(journal)) Journal(journal, Journal::Mode::read_only, [](const std::string&) {});
  return config;
}

/// Hooks that log to stderr, a line with the time each, and stop on Ctrl-C.
TrainHooks logging_hooks() {
  catch_interrupts();
  auto logger =
      std::make_shared<spdlog::logger>("signvote", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %v");
  logger->flush_on(spdlog::level::info);
  TrainHooks hooks;
  hooks.stop = &stop_requested();
  hooks.warn = [logger](const std::string& line) { logger->info("{}", line); };
  hooks.progress = [logger](const ProgressState& state) {
    if (!state.evaluated && state.done != state.total) return;
    logger->info("round {} of {}{}{}", state.done, state.total,
                 state.test_accuracy ? fmt::format(", accuracy {:.2f} %", 100 * *state.test_accuracy) : "",
                 state.train_loss ? fmt::format(", loss {:.4f}", *state.train_loss) : "");
  };
  return hooks;
}

}  // namespace

struct NetworkCommands::Flags {
  TlsFlags server_tls;
  TrainConfig config;
  ServerEngineOptions server;
  std::string state;
  std::string allow;
  std::string quorum;
  std::string deadline;
  std::string keep;
  std::string metrics_port;

  TlsFlags worker_tls;
  WorkerOptions worker;
  std::string batch;
  std::string round_time;
  std::string give_up;

  fs::path journal;
  std::string round;
  std::string model;
  bool as_json = false;

  int run_server(const std::function<void(TrainConfig&)>& read_settings);
  int run_worker();
  int verify() const;
  int list() const;
  int write_model() const;
};

NetworkCommands::NetworkCommands() : flags_(std::make_unique<Flags>()) {}
NetworkCommands::~NetworkCommands() = default;

void NetworkCommands::add_to(CLI::App& app, std::function<int()>& action,
                             const std::function<void(CLI::App&)>& add_settings,
                             const std::function<void(TrainConfig&)>& read_settings) {
  Flags& f = *flags_;
  CLI::App* server = app.add_subcommand("server", "Run the tally for workers on other machines");
  server->footer(
      "Examples:\n  signvote server --config run.toml --listen 0.0.0.0:7000 --cert certs/server.pem --key "
      "certs/server.key \\\n    --client-ca certs/ca.pem --state runs/elastic\n"
      "  signvote server --batches 14x4,904 --quorum 10/15 --deadline 30s --listen 127.0.0.1:7000 --insecure "
      "--state runs/try\n\n"
      "Started again with the same --state it goes on where it was, also after kill -9.");
  server->add_option("--listen", f.server.listen.listen, "HOST:PORT; port 0 takes a free one")
      ->required()
      ->type_name("HOST:PORT");
  server->add_option("--state", f.state, "Folder of the run and its journal")->required()->type_name("DIR");
  f.server_tls.add_to(*server, "--client-ca", "the workers'");
  server
      ->add_option("--allow", f.allow,
                   "TOML file, NAME = WORKER a line; read again when it changes [worker-0, worker-1, ...]")
      ->type_name("FILE");
  server->add_option("--quorum", f.quorum, "Close a round with K of M workers [M/M]")->type_name("K/M");
  server
      ->add_option("--deadline", f.deadline,
                   "... but not before this time has passed, unless all have voted, e.g. 30s")
      ->type_name("TIME");
  server->add_option("--keep", f.keep, "Verdicts to keep in the journal, at least [all]")
      ->type_name("NUMBER");
  server
      ->add_option("--metrics-port", f.metrics_port,
                   "Loopback port of /metrics and /healthz; 'off' for none [the next after --listen's]")
      ->type_name("PORT");
  add_settings(*server);
  server->callback(
      [&f, &action, read_settings] { action = [&f, read_settings] { return f.run_server(read_settings); }; });

  CLI::App* worker = app.add_subcommand("worker", "Compute gradients for a server elsewhere");
  worker->footer(
      "Examples:\n  signvote worker --connect server.example:7000 --cert certs/worker-0.pem --key "
      "certs/worker-0.key --ca certs/ca.pem --batch 64\n"
      "  signvote worker --connect 127.0.0.1:7000 --insecure --name worker-0 --batch auto --round-time 5s");
  worker->add_option("--connect", f.worker.session.connect, "The server")->required()->type_name("HOST:PORT");
  f.worker_tls.add_to(*worker, "--ca", "the server's");
  worker->add_option("--name", f.worker.session.name, "Who this is, with --insecure; else the certificate says it")
      ->type_name("NAME");
  worker->add_option("--data", f.worker.data, "Folder of the data set's files [the cache]")->type_name("DIR");
  worker->add_option("--batch", f.batch, "Samples a round, or 'auto' [as the run's settings say]")
      ->type_name("NUMBER|auto");
  worker->add_option("--round-time", f.round_time, "With --batch auto: how long a gradient may take, e.g. 5s")
      ->type_name("TIME");
  worker->add_option("--threads", f.worker.threads, "Threads, 0 for one per core [0]")
      ->check(CLI::Range(0, 1024).description(""))
      ->type_name("NUMBER");
  worker->add_option("--give-up", f.give_up, "Without a server for so long [10m]")->type_name("TIME");
  worker->callback([&f, &action] { action = [&f] { return f.run_worker(); }; });

  CLI::App* journal = app.add_subcommand("journal", "Look into a server's journal");
  journal->require_subcommand(1);
  journal->footer(
      "Examples:\n  signvote journal runs/elastic verify\n  signvote journal runs/elastic list --json\n"
      "  signvote journal runs/elastic model --round 120 --out model-120.pt");
  journal->add_option("folder", f.journal, "The server's --state")->required()->type_name("DIR");
  CLI::App* verify = journal->add_subcommand(
      "verify", "Check every byte, and decide every round anew whose ballots are there");
  verify->callback([&f, &action] { action = [&f] { return f.verify(); }; });
  CLI::App* list = journal->add_subcommand("list", "What is in it");
  list->add_flag("--json", f.as_json, "Print JSON instead of a table");
  list->callback([&f, &action] { action = [&f] { return f.list(); }; });
  CLI::App* model =
      journal->add_subcommand("model", "The model after any round, from the start and the verdicts");
  model->add_option("--round", f.round, "Rounds stepped [all]")->type_name("NUMBER");
  model->add_option("--out", f.model, "The file to write")->required()->type_name("MODEL.pt");
  model->callback([&f, &action] { action = [&f] { return f.write_model(); }; });
}

int NetworkCommands::Flags::run_server(const std::function<void(TrainConfig&)>& read_settings) {
  const bool again = fs::exists(fs::path(state) / "config.toml");
  if (again) config = load_state(state);
  TrainConfig asked = config;
  read_settings(asked);
  asked.engine = "grpc";
  asked.out = state;
  resolve(asked);
  if (again && asked.run_id() != config.run_id())
    throw ConfigError(
        fmt::format("'{}' holds a run of other settings; leave them out to go on with it, or choose "
                    "another --state",
                    state));
  config = asked;
  server_tls.read(server.listen.keys, server.listen.client_authority, "--client-ca");
  if (!allow.empty()) server.allow = allow;
  if (!quorum.empty()) server.quorum = parse_quorum(quorum, *config.workers);
  if (!deadline.empty()) {
    if (quorum.empty() || server.quorum == *config.workers)
      throw ConfigError(
          "--deadline needs a smaller --quorum: with all workers a round waits for all of them");
    server.deadline_seconds = parse_seconds("--deadline", deadline);
  }
  if (!keep.empty()) server.keep = parse_whole("--keep", keep);
  const Address listen = listen_address(server.listen);
  if (metrics_port.empty()) {
    if (listen.port == 65535)
      throw ConfigError("after --listen's port 65535 there is none; give a --metrics-port");
    server.metrics_port = listen.port == 0 ? 0 : listen.port + 1;
  } else if (metrics_port != "off") {
    int port = -1;
    const char* end = metrics_port.data() + metrics_port.size();
    const auto [stop, error] = std::from_chars(metrics_port.data(), end, port);
    if (error != std::errc{} || stop != end || port < 0 || port > 65535)
      throw ConfigError(fmt::format("--metrics-port is '{}'; write a port, or off", metrics_port));
    server.metrics_port = port;
  }
  const Dataset dataset = load_dataset(config.dataset, config.data_folder());
  check_batches(config, dataset);
  const AllowList allowed(server.allow, *config.workers);  // throws before anything is made
  raise_file_limit();                                      // every connection is a file
  make_folder(state);
  const TrainHooks hooks = logging_hooks();
  const TrainResult result = serve(config, server, dataset, hooks);
  if (!result.finished) {
    hooks.warn(fmt::format("stopped and saved after round {} of {}; the same command goes on", result.rounds,
                           config.rounds));
    return kInterrupted;
  }
  fmt::print("{}run folder      {}\n", format_summary(read_summary(state)), state);
  return 0;
}

int NetworkCommands::Flags::run_worker() {
  std::optional<KeyPair> keys;
  worker_tls.read(keys, worker.session.authority, "--ca");
  if (worker_tls.insecure && worker.session.name.empty())
    throw ConfigError("--insecure needs a --name, for there is no certificate to tell who this is");
  if (keys && !common_name(keys->certificate))
    throw DataError(fmt::format("the certificate '{}' must have one common name (CN), the worker's name",
                                worker_tls.certificate));
  if (!worker_tls.insecure && !worker.session.name.empty())
    throw ConfigError("--name is for --insecure; the certificate says who this is");
  if (keys) {
    worker.session.certificate = keys->certificate;
    worker.session.key = keys->key;
  }
  worker.session.program = "signvote " SIGNVOTE_VERSION;
  if (batch == "auto") {
    if (round_time.empty()) throw ConfigError("--batch auto needs a --round-time, e.g. 5s");
    worker.round_seconds = parse_seconds("--round-time", round_time);
  } else {
    if (!round_time.empty()) throw ConfigError("--round-time needs --batch auto");
    std::uint32_t samples = 0;
    const char* end = batch.data() + batch.size();
    const auto [stop, error] = std::from_chars(batch.data(), end, samples);
    if (!batch.empty() && (error != std::errc{} || stop != end || samples < 1))
      throw ConfigError(fmt::format("--batch is '{}'; write a number of samples, or auto", batch));
    if (!batch.empty()) worker.batch = samples;
  }
  if (!give_up.empty()) worker.session.give_up_seconds = parse_seconds("--give-up", give_up);
  const TrainHooks hooks = logging_hooks();
  const TrainResult result = work(worker, hooks);
  hooks.warn(result.finished ? fmt::format("the run is finished, {} rounds", result.rounds)
                             : fmt::format("stopped in round {}", result.rounds + 1));
  return result.finished ? 0 : kInterrupted;
}

int NetworkCommands::Flags::verify() const {
  const TrainConfig config = load_state(journal);
  const Audit audit = audit_journal(config, journal / "journal");
  for (const std::string& line : audit.remarks) fmt::print("{}\n", line);
  fmt::print(
      "{}: {} rounds; verdicts of rounds {} to {} are whole, {} decided anew to the same verdict\nmodel "
      "sha256    {}\n",
      journal.string(), audit.rounds, audit.oldest + 1, audit.rounds, audit.decided, audit.model_sha256);
  return 0;
}

int NetworkCommands::Flags::list() const {
  load_state(journal);
  std::vector<std::string> remarks;
  const Journal opened(journal / "journal", Journal::Mode::read_only,
                       [&remarks](const std::string& line) { remarks.push_back(line); });
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Journal::File& file : opened.files())
    rows.push_back({{"file", file.name},
                    {"kind", file.kind},
                    {"first", file.first},
                    {"last", file.last},
                    {"bytes", file.bytes}});
  if (as_json) {
    fmt::print(
        "{}\n",
        nlohmann::ordered_json{
            {"rounds", opened.rounds()}, {"oldest", opened.oldest()}, {"files", rows}, {"remarks", remarks}}
            .dump(2));
    return 0;
  }
  for (const std::string& line : remarks) fmt::print("{}\n", line);
  fmt::print("{:<10}{:>10}{:>10}{:>14}  {}\n", "kind", "from", "to", "bytes", "file");
  for (const Journal::File& file : opened.files())
    fmt::print("{:<10}{:>10}{:>10}{:>14}  {}\n", file.kind, file.first, file.last, file.bytes, file.name);
  fmt::print("{} rounds; models of rounds {} to {} can be had\n", opened.rounds(), opened.oldest(),
             opened.rounds());
  return 0;
}

int NetworkCommands::Flags::write_model() const {
  const auto rounds = round.empty() ? std::nullopt : std::optional(parse_whole("--round", round));
  const TrainConfig config = load_state(journal);
  const ModelFile file = write_past_model(config, journal / "journal", rounds, model);
  fmt::print("{}: the model after round {}\nmodel sha256    {}\n", model, file.round, file.model_sha256);
  return 0;
}

}  // namespace signvote::cli
