// A tally's snapshots: a restored tally goes on as the saved one would have, however the coordinates were
// divided among tallies before and after. Damaged, foreign or incomplete snapshots are refused.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <string>

#include "signvote/error.h"
#include "signvote/tally.h"
#include "tally/script.h"
#include "tally/votes.h"

namespace signvote {
namespace {

using testing::all_present;
using testing::make_script;
using testing::Script;
using testing::verdicts;

TEST(Snapshot, goes_on_to_the_same_bytes) {
  EXPECT_TRUE(rc::check("restored at any round", [](std::uint64_t seed) {
    const auto at = *rc::gen::inRange<std::size_t>(0, 20);
    Script script = make_script(seed, 200, 5, 20, 0.2, 4);
    script.options.method = std::array{Method::it, Method::shrink, Method::agree}[seed % 3];
    Tally whole(script.options);
    const auto expected = verdicts(whole, script);
    Tally before(script.options);
    SignVector verdict;
    for (std::size_t t = 0; t < at; ++t) before.decide(script.present[t], verdict);
    Tally after(script.options);
    after.restore(before.snapshot());
    const auto rest = verdicts(after, script, at);
    RC_ASSERT(std::equal(rest.begin(), rest.end(), expected.begin() + static_cast<std::ptrdiff_t>(at)));
    RC_ASSERT(after.snapshot() == whole.snapshot());
    RC_ASSERT(after.rounds() == 20U);
  }));
}

/// The coordinates [first, last) of each ballot.
std::vector<SignVector> slices(std::span<const std::optional<SignView>> ballots, std::size_t first,
                               std::size_t last) {
  std::vector<SignVector> result(ballots.size(), SignVector(last - first));
  for (std::size_t m = 0; m < ballots.size(); ++m)
    for (std::size_t i = first; ballots[m] && i < last; ++i) result[m].set(i - first, (*ballots[m])[i]);
  return result;
}

/// Tallies that share a model, and what they pool. `cuts` are the coordinates where they meet, with 0 and n
/// at the ends.
struct Shards {
  std::vector<Tally> tallies;

  Shards(TallyOptions options, const std::vector<std::size_t>& cuts) {
    for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
      options.begin = cuts[s];
      options.end = cuts[s + 1];
      tallies.emplace_back(options);
    }
  }

  SignVector decide(std::span<const std::optional<SignView>> ballots) {
    SignVector all(tallies.back().options().end);
    for (Tally& tally : tallies) {
      const std::size_t begin = tally.options().begin;
      const auto parts = slices(ballots, begin, tally.options().end);
      auto present = all_present(parts);
      for (std::size_t m = 0; m < ballots.size(); ++m)
        if (!ballots[m]) present[m].reset();
      SignVector verdict;
      tally.decide(present, verdict);
      for (std::size_t i = 0; i < verdict.size(); ++i) all.set(begin + i, verdict[i]);
    }
    pool();
    return all;
  }

  void pool() {
    std::vector<std::int64_t> sums(tallies[0].pooled().size());
    for (const Tally& tally : tallies)
      std::ranges::transform(sums, tally.pooled(), sums.begin(), std::plus());
    for (Tally& tally : tallies) tally.set_pooled(sums);
  }

  void restore(const std::vector<std::span<const std::byte>>& parts) {
    for (Tally& tally : tallies) tally.restore(parts);
  }

  std::vector<std::vector<std::byte>> snapshots() const {
    std::vector<std::vector<std::byte>> result;
    for (const Tally& tally : tallies) result.push_back(tally.snapshot());
    return result;
  }
};

std::vector<std::size_t> random_cuts(std::size_t n, std::mt19937_64& random) {
  std::vector<std::size_t> cuts = {0, n};
  for (std::size_t i = random() % 5; i > 0; --i) cuts.push_back(random() % (n + 1));
  std::ranges::sort(cuts);  // two equal cuts make an empty shard
  return cuts;
}

std::vector<std::span<const std::byte>> views(const std::vector<std::vector<std::byte>>& snapshots) {
  return {snapshots.begin(), snapshots.end()};
}

TEST(Snapshot, shards_are_restored_into_other_shards) {
  EXPECT_TRUE(rc::check("any cuts before, any after", [](std::uint64_t seed) {
    const auto n = *rc::gen::inRange<std::size_t>(1, 1500);
    const auto at = *rc::gen::inRange<std::size_t>(0, 12);
    Script script = make_script(seed, n, 5, 12, 0.2, 3);
    script.options.method = std::array{Method::mv, Method::it, Method::shrink, Method::agree}[seed % 4];
    std::mt19937_64 random(seed);
    const auto cuts = [&] {
      std::vector<std::size_t> result = random_cuts(n, random);
      if (script.options.method == Method::agree)  // whose ranges begin with a word
        for (std::size_t& cut : result) cut -= cut == n ? 0 : cut % 64;
      return result;
    };
    Tally whole(script.options);
    const auto expected = verdicts(whole, script);
    Shards before(script.options, cuts());
    for (std::size_t t = 0; t < at; ++t) RC_ASSERT(before.decide(script.present[t]) == expected[t]);
    auto snapshots = before.snapshots();
    std::shuffle(snapshots.begin(), snapshots.end(), random);
    Shards after(script.options, cuts());
    after.restore(views(snapshots));
    for (std::size_t t = at; t < 12; ++t) RC_ASSERT(after.decide(script.present[t]) == expected[t]);
    for (std::uint32_t m = 0; m < 5; ++m) {
      std::int64_t total = 0;
      for (const Tally& tally : after.tallies) total += tally.total_half_errors(m);
      RC_ASSERT(total == whole.total_half_errors(m));
    }
    Tally together(script.options);
    together.restore(views(after.snapshots()));
    RC_ASSERT(together.snapshot() == whole.snapshot());
  }));
}

TEST(Snapshot, refuses_snapshots_that_do_not_fit_together) {
  const Script script = make_script(4, 600, 3, 10, 0.3, 2);
  const auto shards = [&](std::vector<std::size_t> cuts, std::size_t rounds = 10) {
    Shards result(script.options, cuts);
    for (std::size_t t = 0; t < rounds; ++t) result.decide(script.present[t]);
    return result.snapshots();
  };
  const auto thirds = shards({0, 200, 400, 600});
  const auto halves = shards({0, 300, 600});
  Tally target(script.options);
  const auto untouched = target.snapshot();
  const auto refused = [&](std::vector<std::vector<std::byte>> parts, const char* word) {
    try {
      target.restore(views(parts));
      ADD_FAILURE() << "restored, in spite of: " << word;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
    EXPECT_EQ(target.snapshot(), untouched);
  };
  refused({}, "no snapshot");
  refused({thirds[0], thirds[2]}, "coordinate 200");
  refused({thirds[1], thirds[2]}, "coordinate 0");
  refused({thirds[0], thirds[1]}, "coordinate 400");
  refused({halves[0], thirds[1], thirds[2]}, "overlap");
  refused({thirds[0], thirds[0], thirds[1], thirds[2]}, "overlap");
  refused({thirds[0], thirds[1], shards({0, 200, 400, 600}, 9)[2]}, "not of one round");
  // The same number of rounds, in which other workers took part.
  Shards others(script.options, {0, 300, 600});
  for (std::size_t t = 0; t < 10; ++t) others.decide(all_present(script.ballots[t]));
  refused({halves[0], others.snapshots()[1]}, "not of one round");
  auto damaged = thirds;
  damaged[2].back() ^= std::byte{1};
  refused(damaged, "damaged");
  TallyOptions lower = script.options;
  lower.end = 150;
  Tally needs_one(lower);
  needs_one.restore(thirds[0]);
  EXPECT_EQ(needs_one.rounds(), 10U) << "what lies outside of its range is not needed";
  target.restore(views(thirds));
  Tally same(script.options);
  same.restore(views(halves));
  EXPECT_EQ(target.snapshot(), same.snapshot());
}

TEST(Snapshot, refuses_damaged_and_foreign_snapshots) {
  const Script script = make_script(3, 65, 4, 10, 0, 2);
  Tally tally(script.options);
  verdicts(tally, script);
  const std::vector<std::byte> good = tally.snapshot();
  Tally target(script.options);
  const std::vector<std::byte> untouched = target.snapshot();
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto flipped = good;
    flipped[i] ^= std::byte{0x10};
    EXPECT_THROW(target.restore(flipped), DataError) << "byte " << i;
    EXPECT_THROW(target.restore(std::span(good).first(i)), DataError) << "cut to " << i;
  }
  EXPECT_EQ(target.snapshot(), untouched);
  for (auto change :
       {+[](TallyOptions& o) { o.method = Method::mv; }, +[](TallyOptions& o) { o.workers = 5; },
        +[](TallyOptions& o) { o.end = 66; }, +[](TallyOptions& o) { o.initial_rounds = 3; },
        +[](TallyOptions& o) { o.clip = 9; }, +[](TallyOptions& o) { o.method = Method::shrink; },
        +[](TallyOptions& o) { o.prior_rounds = 31; }, +[](TallyOptions& o) { o.forget = 0.01; }}) {
    TallyOptions options = script.options;
    change(options);
    Tally other(options);
    EXPECT_THROW(other.restore(good), DataError);
  }
  target.restore(good);
  EXPECT_EQ(target.snapshot(), good);
}

}  // namespace
}  // namespace signvote
