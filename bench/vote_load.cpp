// Many workers of one server in one process, without gradients: what the server can take.
// vote_load HOST:PORT WORKERS SIZE AT_ONCE [CERTS]: worker-0, worker-1, ... each have a session of their own,
// by TLS with the certificates in the folder CERTS, or without. Each fetches the model and votes every round
// with the same signs, an abstention of 15 % in runs as dead units leave them. AT_ONCE of them connect at the
// same time. Who gets no connection tries again, as a worker does; a session that ends before the run does is
// a failure. Ends with the run, and prints one JSON object: rounds a second from the third verdict that all
// have to the last, the seconds until all had a model, the connections that had to be tried again, and a
// ballot's bytes.
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "base/process.h"
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

constexpr std::uint64_t kWarmUp = 3;                 // rounds
constexpr std::chrono::minutes kPatience{3};         // until a worker must have a session
constexpr std::chrono::milliseconds kTryAgain{500};  // as a worker does

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
  std::counting_semaphore<> door;  // for those that connect
  std::atomic<Clock::rep> joined = 0;
  std::atomic<std::uint64_t> tried_again = 0;
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
    progress.door.acquire();
    for (const auto start = Clock::now(); !join(); ++progress.tried_again) {
      const SessionEnd end = client_.end();
      if (end.kind == SessionEnd::Kind::refused || Clock::now() - start > kPatience)
        throw EngineError(end.text);
      std::this_thread::sleep_for(kTryAgain);
    }
    progress.door.release();
    progress.joined = Clock::now().time_since_epoch().count();
    vote(progress, workers);
  }

 private:
  /// Returns true if it has a session and a model.
  bool join() {
    v1::FromWorker hello;
    hello.mutable_hello()->set_protocol(kProtocol);
    hello.mutable_hello()->set_program("vote_load");
    hello.mutable_hello()->set_name(fmt::format("worker-{}", worker_));
    if (!client_.begin(60) || !client_.send(hello) || !client_.receive(message_)) return false;
    welcome_ = message_.welcome();
    if (welcome_.worker() != worker_ || welcome_.parameters() != signs_.size())
      throw EngineError("the server has another model, or another number for this worker");
    for (std::size_t have = 0; welcome_.snapshot() && have < 4 * signs_.size();) {
      if (!client_.receive(message_)) return false;
      have += message_.chunk().data().size();
    }
    return true;
  }

  void vote(Progress& progress, std::uint32_t workers) {
    std::vector<std::byte> bytes;
    encode({MessageKind::ballot, welcome_.run_id(), 0, worker_, signs_.size()}, signs_, bytes);
    progress.ballot_bytes += bytes.size();
    v1::FromWorker vote;
    v1::Ballot& ballot = *vote.mutable_ballot();
    ballot.set_message(bytes.data(), bytes.size());
    ballot.set_batch(1);
    ballot.set_loss(2.3);
    for (std::uint64_t round = welcome_.round(), seen = 0;; ++round) {
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
      if (round + 1 == welcome_.rounds()) break;
    }
    receive();
  }

  void receive() {
    if (!client_.receive(message_)) throw EngineError(client_.end().text);
  }

  VoteClient client_;
  std::uint32_t worker_;
  SignVector signs_;
  v1::Welcome welcome_;
  v1::ToWorker message_;
};

VoteClientOptions options_of(std::uint32_t worker, const std::string& connect,
                             const std::filesystem::path& certs) {
  if (certs.empty()) return {connect, {}, {}};
  const std::string name = fmt::format("worker-{}", worker);
  return {connect, load_key_pair(certs / (name + ".pem"), certs / (name + ".key")),
          load_authority(certs / "ca.pem")};
}

void load(const std::string& connect, std::uint32_t workers, std::size_t size, std::uint32_t at_once,
          const std::filesystem::path& certs) {
  raise_file_limit();  // because every session is a file
  std::vector<std::unique_ptr<Voter>> voters;
  for (std::uint32_t m = 0; m < workers; ++m)
    voters.push_back(std::make_unique<Voter>(options_of(m, connect, certs), m, size));
  Progress progress{.door = std::counting_semaphore<>(at_once)};
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  for (std::uint32_t m = 0; m < workers; ++m)
    threads.emplace_back([&, m] {
      try {
        voters[m]->go(progress, workers);
      } catch (const std::exception& error) {
        // The others would wait for this one.
        fmt::print(stderr, "worker-{}: {}\n", m, error.what());
        std::_Exit(1);
      }
    });
  for (std::thread& thread : threads) thread.join();
  const auto seconds = [](Clock::rep ticks) {
    return std::chrono::duration<double>(Clock::duration(ticks)).count();
  };
  const double spent = seconds(progress.end - progress.begin);
  const auto rounds = static_cast<double>(progress.end_round - progress.begin_round);
  fmt::print(
      R"({{"bench":"vote_load","workers":{},"size":{},"rounds":{},"seconds":{:.4f},"rounds_per_second":{:.3f},)"
      R"("join_seconds":{:.2f},"tried_again":{},"ballot_bytes":{}}})"
      "\n",
      workers, size, rounds, spent, rounds / spent,
      seconds(progress.joined - start.time_since_epoch().count()), progress.tried_again.load(),
      progress.ballot_bytes / workers);
}

}  // namespace
}  // namespace signvote::bench

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) {
    fmt::print(stderr, "usage: vote_load HOST:PORT WORKERS SIZE AT_ONCE [CERTS]\n");
    return 2;
  }
  try {
    signvote::bench::load(argv[1], static_cast<std::uint32_t>(std::stoul(argv[2])), std::stoul(argv[3]),
                          static_cast<std::uint32_t>(std::stoul(argv[4])), argc == 6 ? argv[5] : "");
  } catch (const std::exception& error) {
    fmt::print(stderr, "vote_load: {}\n", error.what());
    std::_Exit(1);  // because some threads may run
  }
}
