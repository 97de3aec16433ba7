// A real server for examples/own_worker.cpp: it tallies, journals and publishes for the examples' small
// model.
//   small_server FOLDER ROUNDS
// makes certificates in FOLDER/certs, listens on a free port of the loopback (FOLDER/server.json tells
// which), and prints the accuracy when the run is over.
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "../../examples/small_model.h"
#include "base/files.h"
#include "certs/authority.h"
#include "certs/certificates.h"
#include "engine/grpc/server_engine.h"

using namespace signvote;

int main(int, char** argv) {
  const std::filesystem::path folder = argv[1];
  const std::filesystem::path certs = folder / "certs";
  make_ca(certs, 10);
  make_server_certificate(certs, {"127.0.0.1"}, 10);
  for (const char* name : {"worker-0", "worker-1", "worker-2"}) make_worker_certificate(certs, name, 10);

  ServerEngineOptions options;
  options.tally = {Method::it, 3, 0, kParameters, 10, 10};
  options.run_id = 1;
  options.rounds = std::stoull(argv[2]);
  constexpr float kStep = 0.002F;
  options.step_of = [](std::uint64_t) { return Step{kStep, 0}; };
  options.folder = folder;
  options.listen.listen = "127.0.0.1:0";
  options.listen.keys = load_key_pair(certs / "server.pem", certs / "server.key");
  options.listen.client_authority = load_authority(certs / "ca.pem");
  options.stop_requested = [] { return false; };
  options.log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const std::uint64_t rounds = options.rounds;
  Metrics metrics;
  declare_server_metrics(metrics);
  const std::unique_ptr<Engine> engine = make_server_engine(std::move(options), metrics);

  RunState fresh;
  fresh.run_id = 1;
  fresh.parameters = initial_model();
  std::vector<float> model = fresh.parameters;
  engine->open(
      fresh, [](const RunState&) {}, [](const Outcome&) {});
  engine->start();
  for (std::uint64_t round = 0; round < rounds; ++round)
    step(model, *engine->receive_verdict(false).verdict, kStep);
  engine->finish();
  fmt::print("accuracy after {} rounds: {:.1f} %\n", rounds, 100 * accuracy(model));
}
