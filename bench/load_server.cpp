// A server of a run without a model or data, to see how many sessions it holds: the engine of `signvote
// server`, with its journal, TLS and metrics, and parameters that are all zero.
//   load_server FOLDER WORKERS SIZE ROUNDS CERTS
// CERTS is a folder of `signvote certs`. It listens on a free port of the loopback; FOLDER/server.json tells
// which. It takes no snapshot after the first, and ends after ROUNDS rounds.
#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/process.h"
#include "base/thread_pool.h"
#include "certs/certificates.h"
#include "engine/grpc/server_engine.h"
#include "signvote/sign_vector.h"

namespace signvote::bench {
namespace {

void serve(const std::filesystem::path& folder, std::uint32_t workers, std::size_t size, std::uint64_t rounds,
           const std::filesystem::path& certs) {
  ServerEngineOptions options;
  options.tally = {Method::it, workers, 0, size, static_cast<std::uint32_t>(rounds / 2), 10};
  options.run_id = 1;
  options.rounds = rounds;
  constexpr float kStep = 1e-4F;
  options.step_of = [](std::uint64_t) { return Step{kStep, 0}; };
  options.folder = folder;
  options.batches.assign(workers, 1);
  options.listen.listen = "127.0.0.1:0";
  options.listen.keys = load_key_pair(certs / "server.pem", certs / "server.key");
  options.listen.client_authority = load_authority(certs / "ca.pem");
  options.metrics_port = 0;
  options.stop_requested = [] { return false; };
  options.log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  raise_file_limit();  // as the program does
  ThreadPool threads(std::thread::hardware_concurrency());
  Metrics metrics;
  declare_server_metrics(metrics);
  const auto engine = make_server_engine(std::move(options), metrics, threads.parallel_for());

  RunState fresh;
  fresh.run_id = 1;
  fresh.parameters.assign(size, 0.0F);
  std::vector<float> model = fresh.parameters;
  engine->open(
      fresh, [](const RunState&) {}, [](const Outcome&) {});
  engine->start();
  for (std::uint64_t round = 0; round < rounds; ++round)
    step(model, *engine->receive_verdict(false).verdict, kStep);
  engine->finish();
}

}  // namespace
}  // namespace signvote::bench

int main(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(stderr, "usage: load_server FOLDER WORKERS SIZE ROUNDS CERTS\n");
    return 2;
  }
  try {
    signvote::bench::serve(argv[1], static_cast<std::uint32_t>(std::stoul(argv[2])), std::stoul(argv[3]),
                           std::stoull(argv[4]), argv[5]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "load_server: {}\n", error.what());
    return 1;
  }
}
