// A round between ranks, against what a data-parallel training would send instead.
// mpirun -n R mpi_round_bench MODE N ROUNDS, with one worker a rank. MODE is
//   vote       the ballots of a round and its verdict, with method it and a weighted vote. Nobody abstains,
//              because such ballots are the longest.
//   allreduce  MPI_Allreduce of N float32, which is what averaging gradients takes
// Rank 0 prints one JSON object: the seconds of a round in the slowest rank, best and median. For vote also
// the seconds of its computing alone (encode, decode, vote; in all ranks at the same time, without MPI), so
// that the difference is what communication takes.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/mpi/messages.h"
#include "engine/mpi/mpi_calls.h"
#include "engine/mpi/mpi_engine.h"
#include "measure.h"
#include "signvote/error.h"

namespace signvote::bench {
namespace {

constexpr std::uint64_t kRunId = 1;
constexpr std::uint32_t kInitialRounds = 8;

struct Times {
  double best = 0;
  double median = 0;
};

/// The times of `body` in the slowest rank, if all begin together. The first `skip` times do not count.
Times times_of(std::size_t rounds, std::size_t skip, const std::function<void()>& body) {
  std::vector<double> all;
  for (std::size_t i = 0; i < rounds + skip; ++i) {
    mpi::check(MPI_Barrier(MPI_COMM_WORLD), "to begin together");
    const double mine = seconds_of(body);
    double slowest = 0;
    mpi::check(MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "to compare times");
    if (i >= skip) all.push_back(slowest);
  }
  std::ranges::sort(all);
  return {all.front(), all[all.size() / 2]};
}

/// A gradient without zeros. The ranks agree on a coordinate's sign, except where one is wrong. Some are
/// wrong more often than others, so that the weights differ and ties are as rare as in a training.
std::vector<float> random_gradient(std::size_t size, std::uint32_t rank, std::uint32_t round) {
  std::mt19937 truth(round);
  std::mt19937 mistakes(1000 + 1000 * round + rank);
  std::vector<float> gradient(size);
  for (float& value : gradient) {
    const bool wrong = mistakes() % 100 < 10 + 7 * (rank % 5);
    value = ((truth() & 1U) != 0) != wrong ? 0.5F : -0.25F;
  }
  return gradient;
}

/// What MpiEngine computes in a round, without MPI. Instead of the others' messages it reads its own.
class Computing {
 public:
  Computing(const MpiSession& session, std::size_t size, const SignVector& ballot)
      : ranks_(session.size()),
        rank_(session.rank()),
        size_(size),
        ballot_(ballot),
        own_(mpi::shard_of(size, ranks_, rank_)),
        tally_({Method::it, ranks_, own_.begin, own_.end, kInitialRounds, 10}),
        slices_(ranks_),
        received_(ranks_),
        verdict_(size) {}

  void round() {
    const mpi::MessageId id{kRunId, 0, 0};
    std::string problem;
    std::vector<std::optional<SignView>> votes(ranks_);
    votes[rank_] = mpi::slice(ballot_, own_);
    for (std::uint32_t r = 0; r < ranks_; ++r)
      if (r != rank_) send(id, mpi::shard_of(size_, ranks_, r), slices_[r], sent_);
    if (incoming_.empty()) send(id, own_, slices_[rank_], incoming_);
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      if (r == rank_) continue;
      mpi::RankWord word;
      if (!mpi::decode_ballots(incoming_, id, own_, word, {&received_[r], 1}, problem))
        throw EngineError(problem);
      votes[r] = received_[r].signs;
    }
    tally_.decide(votes, slice_);
    Traffic traffic;
    mpi::encode_slice(slice_, slices_[rank_]);
    mpi::encode_verdict(id, slices_[rank_], {}, ranks_ - 1, traffic, sent_);
    for (std::uint32_t r = 0; r < ranks_; ++r)
      if (!mpi::decode_verdict(sent_, id, own_, verdict_, {}, traffic, problem)) throw EngineError(problem);
  }

 private:
  void send(const mpi::MessageId& id, const mpi::Shard& to, mpi::EncodedSlice& slice,
            std::vector<std::byte>& message) {
    mpi::encode_slice(mpi::slice(ballot_, to), slice);
    const mpi::SentBallot ballot{{}, &slice};
    mpi::encode_ballots(id, {}, {&ballot, 1}, message);
  }

  std::uint32_t ranks_;
  std::uint32_t rank_;
  std::size_t size_;
  const SignVector& ballot_;
  mpi::Shard own_;
  Tally tally_;
  std::vector<mpi::EncodedSlice> slices_;
  std::vector<mpi::ReceivedBallot> received_;
  SignVector slice_;
  SignVector verdict_;
  std::vector<std::byte> sent_;
  std::vector<std::byte> incoming_;
};

void vote(const MpiSession& session, std::size_t size, std::size_t rounds) {
  const std::uint32_t ranks = session.size();
  std::vector<std::vector<std::uint32_t>> hosts;
  for (std::uint32_t r = 0; r < ranks; ++r) hosts.push_back({r});
  const std::unique_ptr<Engine> made =
      make_mpi_engine(session, {{Method::it, ranks, 0, size, kInitialRounds, 10}, kRunId, {}, hosts, {}, {}});
  Engine& engine = *made;
  std::vector<SignVector> ballots(kInitialRounds);
  for (std::uint32_t i = 0; i < kInitialRounds; ++i)
    if (pack(random_gradient(size, session.rank(), i), ballots[i])) throw EngineError("not a gradient");
  const std::size_t skip = kInitialRounds + 1;  // the first rounds are plain majorities
  const Times whole = times_of(rounds, skip, [&] {
    engine.send_ballot(engine.hosted()[0], &ballots[engine.tally().rounds() % kInitialRounds], {1, 0});
    engine.receive_verdict(false);
  });
  Computing computing(session, size, ballots[0]);
  const Times alone = times_of(rounds, skip, [&] { computing.round(); });
  engine.send_ballot(engine.hosted()[0], &ballots[0], {1, 0});
  const Traffic before = engine.traffic();
  engine.receive_verdict(false);
  const Traffic after = engine.traffic();
  const double payload = static_cast<double>(after.rank_bytes - before.rank_bytes) / ranks;
  if (!engine.leads()) return;
  fmt::print(
      R"({{"bench":"mpi_round","mode":"vote","ranks":{},"size":{},"rounds":{},"best_seconds":{:.6f},)"
      R"("median_seconds":{:.6f},"computing_best_seconds":{:.6f},"computing_median_seconds":{:.6f},)"
      R"("communication_best_seconds":{:.6f},"communication_median_seconds":{:.6f},"payload_bytes_per_rank":{:.0f}}})"
      "\n",
      ranks, size, rounds, whole.best, whole.median, alone.best, alone.median, whole.best - alone.best,
      whole.median - alone.median, payload);
}

/// An allreduce sends at least what a reduce-scatter and an all-gather do: from each rank twice (R-1)/R of N.
void allreduce(const MpiSession& session, std::size_t size, std::size_t rounds) {
  const std::vector<float> gradient = random_gradient(size, session.rank(), 0);
  std::vector<float> sum(size);
  const Times whole = times_of(rounds, 1, [&] {
    mpi::check(MPI_Allreduce(gradient.data(), sum.data(), static_cast<int>(size), MPI_FLOAT, MPI_SUM,
                             MPI_COMM_WORLD),
               "to sum up");
  });
  const double ranks = session.size();
  if (session.rank() != 0) return;
  fmt::print(
      R"({{"bench":"mpi_round","mode":"allreduce","ranks":{},"size":{},"rounds":{},"best_seconds":{:.6f},)"
      R"("median_seconds":{:.6f},"payload_bytes_per_rank":{:.0f}}})"
      "\n",
      session.size(), size, rounds, whole.best, whole.median,
      2 * (ranks - 1) / ranks * static_cast<double>(size * sizeof(float)));
}

}  // namespace
}  // namespace signvote::bench

int main(int argc, char** argv) {
  using namespace signvote;
  const std::string mode = argc == 4 ? argv[1] : "";
  if (mode != "vote" && mode != "allreduce") {
    fmt::print(stderr, "usage: mpirun -n R mpi_round_bench vote|allreduce N ROUNDS\n");
    return 2;
  }
  const MpiSession session;
  try {
    (mode == "vote" ? bench::vote : bench::allreduce)(session, std::stoul(argv[2]), std::stoul(argv[3]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", session.rank(), error.what());
    session.abort(1);
  }
}
