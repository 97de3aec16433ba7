// Run by mpirun, with any number of ranks. Every rank has an MpiEngine and, to compare, a LocalEngine that
// gets all ballots. Whatever a rank finds wrong ends the whole job with exit code 1.
//
// mpi_engine_test            everything but the following
// mpi_engine_test garbage X  the last rank sends garbage of kind X; all others must name it
// mpi_engine_test forever    rounds without end, for mpi_death_test.py
#include "engine/mpi/mpi_engine.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "base/thread_pool.h"
#include "engine/checkpoint.h"
#include "engine/local/local_engine.h"
#include "engine/mpi/messages.h"
#include "engine/mpi/mpi_calls.h"
#include "signvote/error.h"
#include "signvote/wire.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

using std::chrono::milliseconds;

const MpiSession* session = nullptr;

void require(bool good, const std::string& what) {
  if (good) return;
  fmt::print(stderr, "rank {} of {}: wrong: {}\n", session->rank(), session->size(), what);
  session->abort(1);
}

/// Who is present in a round and how they vote, the same in every rank. Workers differ in how often they are
/// wrong and how often they abstain; some never do.
struct Round {
  std::vector<SignVector> ballots;
  std::vector<const SignVector*> present;
  std::vector<BatchLoss> losses;
};

Round random_round(std::size_t size, std::uint32_t workers, std::mt19937_64& random) {
  Round round;
  const SignVector none(size);
  std::vector<std::uint64_t> truth(none.present().size());
  for (std::uint64_t& word : truth) word = random();
  for (std::uint32_t m = 0; m < workers; ++m) {
    SignVector ballot(size);
    for (std::size_t w = 0; w < truth.size(); ++w) {
      std::uint64_t present = ~std::uint64_t{0};
      std::uint64_t wrong = random();
      for (std::uint32_t i = 0; i < m % 4; ++i) wrong &= random();
      if (m % 3 == 1) present = random() | random();
      if (m % 3 == 2 && w % 5 == 0) present = 0;
      if (w + 1 == truth.size() && size % 64 != 0) present &= (std::uint64_t{1} << size % 64) - 1;
      ballot.present()[w] = present;
      ballot.negative()[w] = (truth[w] ^ wrong) & present;
    }
    round.ballots.push_back(std::move(ballot));
    round.losses.push_back({1 + m, static_cast<double>(random() % 1000) / 7});
  }
  const bool nobody = random() % 20 == 0;
  const auto alone = static_cast<std::uint32_t>(random() % (3 * workers));
  for (std::uint32_t m = 0; m < workers; ++m) {
    const bool absent = nobody || random() % 6 == 0 || (alone < workers && m != alone);
    round.present.push_back(absent ? nullptr : &round.ballots[m]);
  }
  return round;
}

using Hosts = std::vector<std::vector<std::uint32_t>>;

/// Every rank hosts at least one worker.
Hosts random_hosts(std::uint32_t workers, std::mt19937_64& random) {
  Hosts hosts(session->size());
  for (std::uint32_t m = 0; m < workers; ++m)
    hosts[m < hosts.size() ? m : random() % hosts.size()].push_back(m);
  return hosts;
}

/// Rank r hosts worker r.
Hosts one_each() {
  Hosts hosts;
  for (std::uint32_t r = 0; r < session->size(); ++r) hosts.push_back({r});
  return hosts;
}

/// Lets the workers of this rank vote, from a pool's threads.
Outcome play(Engine& engine, const Round& round, ThreadPool& pool, bool stop) {
  pool.for_each(engine.hosted().size(), [&](std::size_t i, std::size_t) {
    const std::uint32_t m = engine.hosted()[i];
    engine.send_ballot(m, round.present[m], round.losses[m]);
  });
  return engine.receive_verdict(stop);
}

void require_same(const Outcome& got, const Outcome& expected, const std::string& where) {
  require((got.verdict == nullptr) == (expected.verdict == nullptr), "whether it is decided, " + where);
  require(got.verdict == nullptr || *got.verdict == *expected.verdict, "the verdict, " + where);
  require(got.present == expected.present, "how many are present, " + where);
  require(got.losses == expected.losses, "the losses, " + where);
  require(got.stop == expected.stop, "the stop, " + where);
}

std::vector<Traffic> traffic_of_all(const Traffic& mine) {
  std::vector<Traffic> all(session->size());
  mpi::check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, MPI_COMM_WORLD),
             "in the test");
  return all;
}

/// The shards that `parts` ranks would have of this tally.
std::vector<Tally> cut(const Tally& whole, std::uint32_t parts) {
  std::vector<Tally> shards;
  const std::vector<std::byte> bytes = whole.snapshot();
  for (std::uint32_t r = 0; r < parts; ++r) {
    TallyOptions options = whole.options();
    const mpi::Shard shard = mpi::shard_of(whole.size(), parts, r);
    options.begin = shard.begin;
    options.end = shard.end;
    Tally part(options);
    part.restore(bytes);
    shards.push_back(std::move(part));
  }
  return shards;
}

/// A folder that all ranks see, until all of them leave it.
class SharedFolder {
 public:
  SharedFolder() {
    if (session->leads()) own_.emplace();
    path_ = session->of_leader(own_ ? own_->path().string() : "");
  }
  ~SharedFolder() { session->first_problem(""); }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::optional<TemporaryFolder> own_;
  std::filesystem::path path_;
};

RunState state_of(const Tally& whole) {
  RunState state;
  state.progress.rounds = whole.rounds();
  state.parameters.resize(whole.size());
  return state;
}

/// What `parts` ranks would have saved after this round.
void save_as(const Tally& whole, std::uint32_t parts, const std::filesystem::path& folder) {
  if (!session->leads()) return;
  const std::vector<Tally> shards = cut(whole, parts);
  for (std::uint32_t r = 1; r < parts; ++r) save_shard(shards[r], folder);
  save_checkpoint(state_of(whole), shards[0], folder);
}

void decides_what_one_process_decides(std::uint64_t seed, std::size_t size, std::size_t rounds) {
  std::mt19937_64 random(seed);
  const auto workers = session->size() + static_cast<std::uint32_t>(random() % (21 - session->size()));
  constexpr std::array kMethods = {Method::mv, Method::it, Method::shrink, Method::shrink};
  const Method method = kMethods[random() % 4];
  const TallyOptions options{method, workers, 0, size, 1 + static_cast<std::uint32_t>(random() % 6), 10};
  const SharedFolder folder;
  const MpiEngineOptions mpi_options{options, seed, folder.path(), random_hosts(workers, random), {}, {}};
  ThreadPool pool(2);
  LocalEngine local(options, seed, "unused");
  const std::unique_ptr<Engine> made = make_mpi_engine(*session, mpi_options, pool.parallel_for());
  Engine& engine = *made;
  require(engine.leads() == (session->rank() == 0), "who leads");
  Traffic before;  // the engine was opened
  const auto play_both = [&](Engine& one, std::size_t t) {
    const std::string where = fmt::format("seed {} size {} workers {} round {}", seed, size, workers, t);
    const Round round = random_round(size, workers, random);
    const auto stopper = static_cast<std::uint32_t>(random() % (8 * session->size()));
    const Outcome got = play(one, round, pool, session->rank() == stopper);
    const Outcome expected = play(local, round, pool, stopper < session->size());
    require_same(got, expected, where);
    require(one.tally().weighted() == local.tally().weighted(), "whether it is weighted, " + where);
    for (std::uint32_t m = 0; m < workers; ++m)
      require(one.tally().prior(m) == local.tally().prior(m), "the prior, " + where);
    if (expected.verdict == nullptr) return;  // the ranks tell each other with the verdict
    const Traffic so_far = local.traffic();
    for (const Traffic& of : traffic_of_all(one.traffic())) {
      require(of.rank_bytes == one.traffic().rank_bytes, "the bytes between ranks, " + where);
      require(of.ballots + before.ballots == so_far.ballots &&
                  of.ballot_bytes + before.ballot_bytes == so_far.ballot_bytes,
              "the ballots counted, " + where);
    }
    const Traffic leaders = traffic_of_all(one.traffic()).front();
    require(leaders.verdicts + before.verdicts == so_far.verdicts &&
                leaders.verdict_bytes + before.verdict_bytes == so_far.verdict_bytes,
            "the verdicts counted, " + where);
  };
  for (std::size_t t = 0; t < rounds / 2; ++t) play_both(engine, t);
  require(engine.total_half_errors() == local.total_half_errors(), "the totals");
  require((engine.traffic().rank_bytes > 0) == (session->size() > 1), "nothing goes from a rank to itself");
  require(engine.tally().snapshot() == cut(local.tally(), session->size())[session->rank()].snapshot(),
          "the snapshot");

  // Twice it goes on from what was saved: by these ranks, then by another number of ranks.
  for (const bool by_others : {false, true}) {
    if (by_others)
      save_as(local.tally(), 1 + static_cast<std::uint32_t>(random() % 9), folder.path());
    else
      engine.save(state_of(local.tally()));
    session->first_problem("");  // rank 0 is the last to save
    const std::unique_ptr<Engine> made_resumed = make_mpi_engine(*session, mpi_options);
    Engine& resumed = *made_resumed;
    std::uint64_t found = 0;
    resumed.open(
        {}, [&](const RunState& state) { found = state.progress.rounds; }, [](const Outcome&) {});
    resumed.start();
    require(found == local.tally().rounds(), "the saved state");
    require(resumed.total_half_errors() == local.total_half_errors(), "the totals after restoring");
    for (std::uint32_t m = 0; m < workers; ++m)
      require(resumed.tally().prior(m) == local.tally().prior(m), "the prior after restoring");
    before = local.traffic();
    for (std::size_t t = 0; t < rounds / 4; ++t) play_both(resumed, rounds / 2 + t);
  }
}

/// What a rank sends must not grow with the number of ranks, except for what is around the signs.
void sends_no_more_with_more_ranks() {
  const std::uint32_t ranks = session->size();
  const std::size_t size = 64'000;
  std::mt19937_64 random(1);
  const std::unique_ptr<Engine> made =
      make_mpi_engine(*session, {{Method::it, ranks, 0, size, 2, 10}, 1, {}, one_each(), {}, {}});
  Engine& engine = *made;
  Round round = random_round(size, ranks, random);
  for (std::uint32_t m = 0; m < ranks; ++m) {
    round.present[m] = &round.ballots[m];
    std::ranges::fill(round.ballots[m].present(), ~std::uint64_t{0});
  }
  ThreadPool pool(1);
  play(engine, round, pool, false);
  const Traffic traffic = engine.traffic();
  const std::uint64_t around = ranks * (100);
  require(traffic.rank_bytes <= ranks * (size / 8 + 2 * size / 8 + 2 * around), "a rank sends too much");
}

/// How often this thread has slept or waited; not how often it was interrupted.
long sleeps() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

constexpr int kReportTag = 99;  // the engine does not use it

/// Tells rank 0 that this rank has got so far. It may be called while the engine waits, because it is called
/// in the thread that uses MPI.
void report() { mpi::check(MPI_Send(nullptr, 0, MPI_BYTE, 0, kReportTag, MPI_COMM_WORLD), "in the test"); }

void wait_for_reports() {
  for (std::uint32_t r = 1; r < session->size(); ++r) {
    MPI_Request request = MPI_REQUEST_NULL;
    mpi::check(MPI_Irecv(nullptr, 0, MPI_BYTE, static_cast<int>(r), kReportTag, MPI_COMM_WORLD, &request),
               "in the test");
    mpi::wait(request, "in the test");
  }
}

/// Ranks that wait for a slow one sleep, and say once that a stop has to wait. Rank 0 is the slow one: it
/// takes part in a round only after all others have reported what they were to see meanwhile.
void waits_quietly() {
  using Clock = std::chrono::steady_clock;
  constexpr int kLooks = 200;
  constexpr milliseconds kPatience{100};
  const std::uint32_t ranks = session->size();
  const bool slow = session->rank() == 0;
  std::mt19937_64 random(2);
  bool asked = false;  // for a stop
  int told = 0, looks = 0;
  Clock::time_point first_look, begun;
  long first_sleep = 0;
  MpiEngineOptions options{{Method::it, ranks, 0, 1000, 2, 10}, 3, {}, one_each(), {}, {}, kPatience};
  options.stop_while_waiting = [&] {
    ++told;
    require(asked, "told of a stop that nobody asked for");
    require(Clock::now() - begun >= kPatience, "told before it had waited");
    if (!slow) report();
  };
  options.stop_requested = [&] {
    if (slow || asked) return asked;
    if (++looks == 1) {
      first_look = Clock::now();
      first_sleep = sleeps();
    }
    if (looks != kLooks) return false;
    // After each look comes a sleep of 0.2 ms. A busy machine may make it longer, but nothing makes it
    // shorter.
    const std::chrono::duration<double, std::milli> took = Clock::now() - first_look;
    require(took.count() > 0.15 * kLooks && sleeps() - first_sleep > kLooks / 2,
            fmt::format("{} looks in {:.1f} ms of waiting, with {} sleeps", looks, took.count(),
                        sleeps() - first_sleep));
    report();
    return false;
  };
  const std::unique_ptr<Engine> made = make_mpi_engine(*session, std::move(options));
  Engine& engine = *made;
  ThreadPool pool(1);
  const auto play_one = [&] {
    begun = Clock::now();
    play(engine, random_round(1000, ranks, random), pool, false);
  };
  session->first_problem("");    // all meet
  if (slow) wait_for_reports();  // of kLooks looks
  play_one();
  require(told == 0, "told of a stop that nobody asked for");
  asked = true;
  if (slow) wait_for_reports();  // of having been told
  play_one();
  if (slow) std::this_thread::sleep_for(3 * kPatience);
  play_one();
  if (slow)
    require(told <= 1, fmt::format("told {} times", told));  // because it may have waited for others, too
  else
    require(told == 1, fmt::format("told {} times", told));
}

/// A rank's message about the only worker that it hosts.
std::vector<std::byte> ballot_message(const mpi::MessageId& id, SignView signs) {
  mpi::EncodedSlice slice;
  mpi::encode_slice(signs, slice);
  std::vector<std::byte> bytes;
  mpi::encode_ballots(id, {}, std::vector<mpi::SentBallot>{{{}, &slice}}, bytes);
  return bytes;
}

/// A message that is exactly one piece must be followed by an empty one. The last shard's ballots are.
void sends_exactly_a_piece() {
  const std::uint32_t ranks = session->size();
  constexpr std::size_t kLastShard = 8 * (mpi::kPieceBytes - 54);
  const std::size_t size = (SignVector::words(kLastShard) * ranks - 1) * 64 + kLastShard % 64;
  const TallyOptions options{Method::it, ranks, 0, size, 1, 10};
  const auto hosts = one_each();
  LocalEngine local(options, 3, "unused");
  const std::unique_ptr<Engine> made = make_mpi_engine(*session, {options, 3, {}, hosts, {}, {}});
  Engine& engine = *made;
  ThreadPool pool(1);
  for (unsigned t = 0; t < 3; ++t) {
    Round round;
    for (std::uint32_t m = 0; m < ranks; ++m) {
      std::mt19937 random(10 * t + m);
      std::vector<float> gradient(size);
      for (float& value : gradient) value = random() % 3 == 0 ? 1.0F : -1.0F;
      require(!pack(gradient, round.ballots.emplace_back()), "a gradient that cannot be packed");
    }
    for (const SignVector& ballot : round.ballots) round.present.push_back(&ballot);
    round.losses.resize(ranks);
    const std::vector<std::byte> bytes =
        ballot_message({3, t, 0}, mpi::slice(round.ballots[0], mpi::shard_of(size, ranks, ranks - 1)));
    require(bytes.size() == mpi::kPieceBytes, fmt::format("a message of {} bytes", bytes.size()));
    require_same(play(engine, round, pool, false), play(local, round, pool, false), "exactly a piece");
  }
}

void names_the_first_problem() {
  const std::uint32_t ranks = session->size();
  require(session->first_problem("").empty(), "a problem nobody has");
  const std::string mine = session->rank() + 2 >= ranks ? fmt::format("rank {} is ill", session->rank()) : "";
  require(session->first_problem(mine) == fmt::format("rank {} is ill", ranks < 2 ? 0 : ranks - 2),
          "the first problem");
}

/// In the third round the last rank sends something else instead of its ballots.
void garbage(const std::string& kind) {
  constexpr std::size_t kSize = 1000;
  const std::uint32_t ranks = session->size();
  const std::uint32_t liar = ranks - 1;
  std::mt19937_64 random(4);
  ThreadPool pool(1);
  const auto hosts = one_each();
  const std::unique_ptr<Engine> made =
      make_mpi_engine(*session, {{Method::it, ranks, 0, kSize, 2, 10}, 3, {}, hosts, {}, {}});
  Engine& engine = *made;
  for (int t = 0; t < 2; ++t) play(engine, random_round(kSize, ranks, random), pool, false);
  const Round round = random_round(kSize, ranks, random);
  if (session->rank() == liar) {
    static std::vector<std::vector<std::byte>> messages(liar);  // static, because some are never received
    for (std::uint32_t to = 0; to < liar; ++to) {
      std::vector<std::byte>& bytes = messages[to];
      const std::uint64_t about = kind == "round" ? 1 : 2;
      bytes = ballot_message({3, about, liar}, mpi::slice(round.ballots[0], mpi::shard_of(kSize, ranks, to)));
      if (kind == "random")
        std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
      if (kind == "long") bytes.resize(100'000);
      if (kind == "short") bytes.clear();
      if (kind == "flipped") bytes[70] ^= std::byte{1};
      MPI_Request request = MPI_REQUEST_NULL;
      mpi::check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, static_cast<int>(to),
                           mpi::kBallotTag, MPI_COMM_WORLD, &request),
                 "in the test");
    }
  } else {
    try {
      play(engine, round, pool, false);
      require(false, "garbage was taken for ballots");
    } catch (const EngineError& error) {
      require(std::string(error.what()).find(fmt::format("rank {}", liar)) != std::string::npos,
              error.what());
      if (session->rank() == 0) fmt::print("{}\n", error.what());
    }
  }
}

[[noreturn]] void forever() {
  const std::uint32_t ranks = session->size();
  std::mt19937_64 random(5);
  ThreadPool pool(1);
  const std::unique_ptr<Engine> made =
      make_mpi_engine(*session, {{Method::it, ranks, 0, 5000, 2, 10}, 3, {}, one_each(), {}, {}});
  Engine& engine = *made;
  for (int t = 0;; ++t) {
    play(engine, random_round(5000, ranks, random), pool, false);
    std::this_thread::sleep_for(milliseconds(1));
    if (t != 20) continue;
    fmt::print("pid {}\n", getpid());
    std::fflush(stdout);
  }
}

void everything() {
  for (const std::size_t size : {1, 63, 64, 65, 1000})
    for (std::uint64_t seed = 1; seed <= 6; ++seed)
      decides_what_one_process_decides(100 * seed + size, size, 60);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) decides_what_one_process_decides(seed, 20'011, 60);
  decides_what_one_process_decides(5, 1'000'003, 4);  // messages in several pieces
  sends_exactly_a_piece();
  names_the_first_problem();
  sends_no_more_with_more_ranks();
  waits_quietly();
}

}  // namespace
}  // namespace signvote

int main(int argc, char** argv) {
  using namespace signvote;
  const std::string mode = argc > 1 ? argv[1] : "";
  const MpiSession here;
  session = &here;
  try {
    if (mode == "garbage" && argc == 3)
      garbage(argv[2]);
    else if (mode == "forever")
      forever();
    else
      everything();
  } catch (const std::exception& error) {
    require(false, error.what());
  }
  if (here.rank() == 0) fmt::print("{} ranks: all as it should be\n", here.size());
}
