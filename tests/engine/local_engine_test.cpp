// The engine within one process: what it decides is what the tally decides, with workers that vote at
// the same time.
#include "engine/local/local_engine.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

#include "base/thread_pool.h"
#include "signvote/wire.h"
#include "tally/script.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

using testing::make_script;
using testing::Script;

/// Null: absent.
const SignVector* ballot_of(const Script& script, std::size_t round, std::size_t worker) {
  return script.present[round][worker] ? &script.ballots[round][worker] : nullptr;
}

TEST(LocalEngine, decides_what_the_tally_decides) {
  EXPECT_TRUE(rc::check("with workers at the same time", [](std::uint64_t seed) {
    const auto n = *rc::gen::inRange<std::size_t>(1, 400);
    const auto workers = *rc::gen::inRange<std::uint32_t>(1, 9);
    Script script = make_script(seed, n, workers, 12, 0.2, 3);
    if (seed % 4 == 0) script.options.method = Method::mv;
    Tally tally(script.options);
    ThreadPool pool(3);
    LocalEngine engine(script.options, seed, "unused", pool.parallel_for());
    RC_ASSERT(engine.leads());
    RC_ASSERT(engine.hosted().size() == workers);
    Traffic expected;
    for (std::size_t round = 0; round < script.present.size(); ++round) {
      const auto& ballots = script.present[round];
      const auto loss = [](std::size_t m) { return BatchLoss{7, 0.5 * static_cast<double>(m)}; };
      pool.for_each(workers, [&](std::size_t m, std::size_t) {
        engine.send_ballot(engine.hosted()[m], ballot_of(script, round, m), loss(m));
      });
      const Outcome outcome = engine.receive_verdict(round == 7);
      RC_ASSERT(outcome.stop == (round == 7));
      std::uint32_t present = 0;
      std::vector<std::byte> bytes;
      for (std::uint32_t m = 0; m < workers; ++m) {
        RC_ASSERT(outcome.losses[m] == loss(m));
        if (!ballots[m]) continue;
        ++present;
        encode({MessageKind::ballot, seed, tally.rounds(), m, n}, *ballots[m], bytes);
        expected += {1, bytes.size(), 0, 0};
      }
      RC_ASSERT(outcome.present == present);
      RC_ASSERT((outcome.verdict == nullptr) == (present == 0));
      if (present == 0) continue;
      const std::uint64_t decided = tally.rounds();
      SignVector verdict;
      tally.decide(ballots, verdict);
      RC_ASSERT(*outcome.verdict == verdict);
      encode({MessageKind::verdict, seed, decided, 0, n}, verdict, bytes);
      expected += {0, 0, 1, bytes.size()};
    }
    RC_ASSERT(engine.tally().snapshot() == tally.snapshot());
    RC_ASSERT(engine.total_half_errors() == tally.total_half_errors());
    RC_ASSERT(engine.traffic() == expected);
  }));
}

TEST(LocalEngine, goes_on_from_what_it_saved) {
  const TemporaryFolder folder;
  const Script script = make_script(5, 130, 3, 6, 0, 2);
  LocalEngine before(script.options, 1, folder.path());
  const auto play = [&](LocalEngine& engine, std::size_t t) {
    for (std::uint32_t m = 0; m < 3; ++m) engine.send_ballot(m, ballot_of(script, t, m), {1, 0});
    return *engine.receive_verdict(false).verdict;
  };
  const auto no_round = [](const Outcome&) { FAIL() << "nothing was decided since"; };
  before.open(
      {}, [](const RunState&) { FAIL() << "nothing was saved"; }, no_round);
  before.start();
  for (std::size_t t = 0; t < 3; ++t) play(before, t);
  RunState state;
  state.run_id = 1;
  state.progress.rounds = 3;
  state.progress.votes = {5, 6};
  state.parameters = std::vector<float>(130, 0.5F);
  before.save(state);
  LocalEngine after(script.options, 1, folder.path());
  RunState found;
  after.open(
      {}, [&](const RunState& saved) { found = saved; }, no_round);
  after.start();
  EXPECT_EQ(found.progress.rounds, 3U);
  EXPECT_EQ(found.progress.votes, (std::vector<std::uint64_t>{5, 6}));
  EXPECT_EQ(found.parameters, state.parameters);
  for (std::size_t t = 3; t < 6; ++t) EXPECT_EQ(play(after, t), play(before, t));
}

}  // namespace
}  // namespace signvote
