// Many workers of one server in one process, without gradients: what the server can take.
// vote_load HOST:PORT WORKERS SIZE [CERTS]: worker-0, worker-1, ... each have a session of their own, by TLS
// with the certificates in the folder CERTS, or without. Each fetches the model and votes every round with
// the same signs, an abstention of 15 % in runs as dead units leave them. Ends with the run, and prints one
// JSON object: rounds a second from the third verdict that all have to the last, and a ballot's bytes.
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "certs/certificates.h"
#include "engine/grpc/protocol.h"
#include "engine/grpc/vote.pb.h"
#include "engine/grpc/vote_client.h"
#include "measure.h"
#include "signvote/error.h"
#include "signvote/sign_vector.h"
#include "signvote/wire.h"

namespace signvote::bench {
namespace {

constexpr std::uint64_t kWarmUp = 3;  // rounds

SignVector random_signs(std::size_t size, std::uint32_t worker) {
  std::mt19937_64 random(worker);
  std::vector<float> gradient(size);
  for (std::size_t i = 0; i < size;) {
    const bool abstains = random() % 100 < 15;
    for (const std::size_t end = std::min(size, i + 20 + random() % 400); i < end; ++i)
      gradient[i] = abstains ? 0.0F : random() % 2 == 0 ? 1.0F : -1.0F;
  }
  SignVector signs;
  if (pack(gradient, signs)) std::abort();
  return signs;
}

/// docs/wire_format.md: the round is at 16, and the checksum, at 56, of everything else.
void set_round(std::string& message, std::uint64_t round) {
  std::memcpy(message.data() + 16, &round, sizeof round);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  XXH3_64bits_update(state.get(), message.data(), 56);
  XXH3_64bits_update(state.get(), message.data() + kHeaderBytes, message.size() - kHeaderBytes);
  const std::uint64_t checksum = XXH3_64bits_digest(state.get());
  std::memcpy(message.data() + 56, &checksum, sizeof checksum);
}

/// When each worker had its verdicts, together: the time of the slowest.
struct Progress {
  std::atomic<std::uint64_t> warm = 0;  // workers
  std::atomic<Clock::rep> begin = 0;
  std::atomic<std::uint64_t> begin_round = 0;
  std::atomic<Clock::rep> end = 0;
  std::atomic<std::uint64_t> end_round = 0;
  std::atomic<std::uint64_t> ballot_bytes = 0;
};

class Voter {
 public:
  Voter(const VoteClientOptions& options, std::uint32_t worker, std::size_t size)
      : client_(options), worker_(worker), signs_(random_signs(size, worker)) {}

  void go(Progress& progress, std::uint32_t workers) {
    if (!client_.begin(60)) throw EngineError(client_.end().text);
    v1::FromWorker hello;
    hello.mutable_hello()->set_protocol(kProtocol);
    hello.mutable_hello()->set_program("vote_load");
    hello.mutable_hello()->set_name(fmt::format("worker-{}", worker_));
    client_.send(hello);
    receive();
    const v1::Welcome welcome = message_.welcome();
    if (welcome.worker() != worker_ || welcome.parameters() != signs_.size())
      throw EngineError("the server has another model, or another number for this worker");
    for (std::size_t have = 0; welcome.snapshot() && have < 4 * signs_.size();) {
      receive();
      have += message_.chunk().data().size();
    }
    std::vector<std::byte> bytes;
    encode({MessageKind::ballot, welcome.run_id(), 0, worker_, signs_.size()}, signs_, bytes);
    progress.ballot_bytes += bytes.size();
    v1::FromWorker vote;
    v1::Ballot& ballot = *vote.mutable_ballot();
    ballot.set_message(bytes.data(), bytes.size());
    ballot.set_batch(1);
    ballot.set_loss(2.3);
    for (std::uint64_t round = welcome.round(), seen = 0;; ++round) {
      ballot.set_round(round);
      set_round(*ballot.mutable_message(), round);
      client_.send(vote);
      receive();
      if (message_.has_finished()) break;
      if (!message_.has_verdict()) throw EngineError("the server sent something else than a verdict");
      const auto now = Clock::now().time_since_epoch().count();
      if (++seen == kWarmUp && ++progress.warm == workers) {
        progress.begin = now;
        progress.begin_round = round;
      }
      progress.end = now;
      progress.end_round = round;
      if (round + 1 == rounds_of(welcome.config())) break;
    }
    receive();
  }

 private:
  static std::uint64_t rounds_of(const std::string& config) {
    const std::size_t at = config.find("\nrounds = ");
    return at == std::string::npos ? UINT64_MAX : std::stoull(config.substr(at + 10));
  }

  void receive() {
    if (!client_.receive(message_)) throw EngineError(client_.end().text);
  }

  VoteClient client_;
  std::uint32_t worker_;
  SignVector signs_;
  v1::ToWorker message_;
};

void load(const std::string& connect, std::uint32_t workers, std::size_t size, const std::string& certs) {
  Progress progress;
  std::vector<std::thread> threads;
  for (std::uint32_t m = 0; m < workers; ++m)
    threads.emplace_back([&, m] {
      try {
        VoteClientOptions options{connect, {}, {}};
        if (!certs.empty()) {
          const std::filesystem::path folder = certs;
          const std::string name = fmt::format("worker-{}", m);
          options.keys = load_key_pair(folder / (name + ".pem"), folder / (name + ".key"));
          options.authority = load_authority(folder / "ca.pem");
        }
        Voter(options, m, size).go(progress, workers);
      } catch (const std::exception& error) {
        // The others would wait for this one.
        fmt::print(stderr, "worker-{}: {}\n", m, error.what());
        std::_Exit(1);
      }
    });
  for (std::thread& thread : threads) thread.join();
  const double seconds =
      std::chrono::duration<double>(Clock::duration(progress.end - progress.begin)).count();
  const auto rounds = static_cast<double>(progress.end_round - progress.begin_round);
  fmt::print(
      R"({{"bench":"vote_load","workers":{},"size":{},"rounds":{},"seconds":{:.4f},"rounds_per_second":{:.3f},)"
      R"("ballot_bytes":{}}})"
      "\n",
      workers, size, rounds, seconds, rounds / seconds, progress.ballot_bytes / workers);
}

}  // namespace
}  // namespace signvote::bench

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    fmt::print(stderr, "usage: vote_load HOST:PORT WORKERS SIZE [CERTS]\n");
    return 2;
  }
  signvote::bench::load(argv[1], static_cast<std::uint32_t>(std::stoul(argv[2])), std::stoul(argv[3]),
                        argc == 5 ? argv[4] : "");
}
