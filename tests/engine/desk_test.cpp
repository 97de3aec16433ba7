// Workers that come, go and come back, as the desk sees them; desk_hostile_test.cpp has those that mean no
// good.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "engine/desk_house.h"
#include "engine/grpc/vote_desk.h"

namespace signvote {
namespace {

using Kind = SessionEnd::Kind;

/// Rounds of one worker.
void play(DeskHouse& house, DeskWorker& worker, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    worker.vote();
    house.close(1);
    worker.take_verdict();
  }
}

/// A worker with a session and the model.
void enter(DeskWorker& worker) {
  if (worker.join().snapshot()) worker.fetch_model();
}

/// A session whose calls are the test's own, so that it is asked when the test wants: a connection asks again
/// whenever a message has left, of which the worker that reads it cannot tell whether the server knows.
std::unique_ptr<Session> join(DeskHouse& house, const std::string& name) {
  return std::get<std::unique_ptr<Session>>(house.desk->join({name, ""}, "here", hello(name).hello()));
}

TEST(Desk, welcomes_with_all_that_a_worker_needs) {
  DeskHouse house;
  DeskWorker worker(house, "worker-1");
  const v1::Welcome welcome = worker.join();
  EXPECT_EQ(welcome.run_id(), house.run_id);
  EXPECT_EQ(welcome.worker(), 1U);
  EXPECT_EQ(welcome.parameters(), house.parameters.size());
  EXPECT_EQ(welcome.open_round(), 0U);
  EXPECT_FALSE(welcome.voted());
  EXPECT_EQ(welcome.rounds(), 1000U);
  EXPECT_EQ(welcome.config(), "settings = 1");
  EXPECT_EQ(house.metric("signvote_workers_connected"), 1);
  worker.end();
  EXPECT_TRUE(eventually([&] { return house.metric("signvote_workers_connected") == 0; }));
  EXPECT_TRUE(eventually([&] { return house.log("worker-1 left").size() == 1; }));
}

TEST(Desk, a_round_is_what_was_voted) {
  DeskHouse house;
  DeskWorker first(house, "worker-0"), second(house, "worker-1"), third(house, "worker-2");
  for (DeskWorker* worker : {&first, &second, &third}) enter(*worker);
  for (std::uint64_t round = 0; round < 6; ++round) {  // from the third on they have weights
    for (DeskWorker* worker : {&first, &second, &third})
      if (round != 4 || worker != &second) worker->vote();
    const RoundRecord record = house.close(round != 4 ? 3 : 2);
    EXPECT_EQ(record.round, round);
    ASSERT_EQ(record.ballots.size(), round != 4 ? 3U : 2U);
    EXPECT_EQ(record.ballots[0].batch, 4U);
    EXPECT_EQ(record.ballots[0].loss, 8);
    for (DeskWorker* worker : {&first, &second, &third}) {
      EXPECT_EQ(worker->take_verdict(), round + 1);
      EXPECT_EQ(worker->model, house.parameters);
    }
  }
  EXPECT_TRUE(house.tally.weighted());
  EXPECT_EQ(house.ballots("counted"), 17);
}

TEST(Desk, waits_for_as_many_as_are_wanted) {
  DeskHouse house;
  DeskWorker first(house, "worker-0"), second(house, "worker-1");
  enter(first);
  enter(second);
  EXPECT_TRUE(house.wait_for_votes(0, 0));
  EXPECT_FALSE(house.wait_for_votes(1, 0.01));
  first.vote();
  EXPECT_TRUE(house.wait_for_votes(1, kConnectSeconds));
  EXPECT_FALSE(house.wait_for_votes(2, 0.01));
  std::jthread votes([&] { second.vote(); });
  EXPECT_TRUE(house.wait_for_votes(2, kConnectSeconds));
  votes.join();
  EXPECT_FALSE(house.wait_for_votes(3, 0));
  house.close(2);
  EXPECT_FALSE(house.wait_for_votes(1, 0)) << "the next round begins with no answer";
}

TEST(Desk, abstentions_are_no_votes_but_all_answers_are_enough) {
  DeskHouse house;
  DeskWorker first(house, "worker-0"), second(house, "worker-1"), third(house, "worker-2");
  for (DeskWorker* worker : {&first, &second, &third}) enter(*worker);
  EXPECT_EQ(house.desk->missing(), (std::vector<std::string>{"worker-0", "worker-1", "worker-2"}));
  first.send(ballot(0, ""));
  second.send(ballot(0, ""));
  ASSERT_TRUE(eventually([&] { return house.ballots("abstained") == 2; }));
  EXPECT_EQ(house.desk->missing(), (std::vector<std::string>{"worker-2"}));
  EXPECT_FALSE(house.wait_for_votes(1, 0)) << "nobody has voted";
  third.vote();
  EXPECT_TRUE(house.wait_for_votes(1, kConnectSeconds));
  EXPECT_TRUE(house.wait_for_votes(2, 0)) << "no more can come";
  EXPECT_TRUE(house.desk->missing().empty());
  EXPECT_EQ(house.close(3).ballots.size(), 3U);
}

TEST(Desk, an_answer_outlives_its_session) {
  DeskHouse house;
  DeskWorker first(house, "worker-0"), second(house, "worker-1");
  enter(first);
  enter(second);
  second.vote();
  ASSERT_TRUE(house.wait_for_votes(1, kConnectSeconds));
  second.end();
  ASSERT_TRUE(eventually([&] { return house.metric("signvote_workers_connected") == 1; }));
  EXPECT_TRUE(house.wait_for_votes(1, 0));
  first.vote();
  EXPECT_EQ(house.close(2).ballots.size(), 2U);
}

// --- Late and back -------------------------------------------------------------------------------

TEST(Desk, a_hundred_million_parameters_pass) {
  const char* form = std::getenv("SIGNVOTE_CHAOS");
  if (form == nullptr || form != std::string_view("long"))
    GTEST_SKIP() << "takes 2 GB; make test-all runs it";
  DeskHouse house({.size = 100'000'000, .method = Method::mv});
  DeskWorker first(house, "worker-0"), late(house, "worker-2");
  enter(first);
  play(house, first, 2);
  EXPECT_TRUE(late.join().snapshot());
  EXPECT_EQ(late.fetch_model(), 382) << "400 MB, a MB each";
  while (late.round() < 2) late.take_verdict();
  EXPECT_EQ(late.model, house.parameters);
}

TEST(Desk, a_late_joiner_gets_the_snapshot_in_chunks_and_the_verdicts_since) {
  DeskHouse house({.size = 600'000, .method = Method::mv});
  DeskWorker first(house, "worker-0"), late(house, "worker-2");
  enter(first);
  play(house, first, 2);
  house.save();
  play(house, first, 3);
  const v1::Welcome welcome = late.join();
  EXPECT_TRUE(welcome.snapshot());
  EXPECT_EQ(welcome.round(), 2U);
  EXPECT_EQ(welcome.open_round(), 5U);
  EXPECT_EQ(late.fetch_model(), 3) << "2.4 MB, a MB each";
  while (late.round() < 5) EXPECT_EQ(late.take_verdict(), 5U);
  EXPECT_EQ(late.model, house.parameters);
  EXPECT_EQ(house.metric("signvote_snapshot_bytes_total"), 2 * 2'400'000);
  late.vote();
  first.vote();
  house.close(2);
  EXPECT_EQ(late.take_verdict(), 6U);
  EXPECT_EQ(late.model, house.parameters);
}

TEST(Desk, a_snapshot_that_is_replaced_meanwhile_is_fetched_to_its_end) {
  DeskHouse house({.size = 600'000, .method = Method::mv});
  DeskWorker first(house, "worker-0"), late(house, "worker-2");
  enter(first);
  play(house, first, 2);
  house.save();
  late.join();  // the rest is not read yet
  play(house, first, 2);
  house.save();
  late.fetch_model();
  while (late.round() < 4) late.take_verdict();
  EXPECT_EQ(late.model, house.parameters);
}

// One bit of a live server's snapshot: no worker gets wrong bytes. The session that meets it is told to come
// again, and then gets the base and all verdicts.
TEST(Desk, a_damaged_snapshot_never_reaches_a_worker) {
  DeskHouse house({.size = 600'000, .method = Method::mv});
  DeskWorker first(house, "worker-0"), late(house, "worker-2"), again(house, "worker-2");
  enter(first);
  play(house, first, 2);
  house.save();
  play(house, first, 1);
  const auto path = house.folder / "journal/snapshot-2.bin";
  {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(2'000'000);
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(2'000'000);
    file.put(byte);
  }
  EXPECT_EQ(late.join().round(), 2U);
  EXPECT_THROW(late.fetch_model(), std::runtime_error);
  const auto is_good = [&house](const std::vector<float>& x, std::size_t from, std::size_t count) {
    return std::memcmp(x.data() + from, house.journal->model(2, DeskHouse::step_of).data() + from,
                       count * sizeof(float)) == 0;
  };
  EXPECT_TRUE(is_good(late.model, 0, (1 << 20) / sizeof(float))) << "the first chunk was whole";
  EXPECT_EQ(late.end().kind, Kind::lost);
  EXPECT_TRUE(eventually([&] { return house.log(path.string()).size() == 1; }));
  EXPECT_TRUE(eventually([&] { return house.refusals()["journal"] == 1; }));
  const v1::Welcome welcome = again.join();
  EXPECT_TRUE(welcome.snapshot());
  EXPECT_EQ(welcome.round(), 0U);
  again.fetch_model();
  while (again.round() < 3) again.take_verdict();
  EXPECT_EQ(again.model, house.parameters);
  play(house, first, 1);
  house.save();
  EXPECT_EQ(house.journal->open_snapshot()->round(), 4U);
}

TEST(Desk, who_comes_back_gets_just_the_verdicts_it_missed) {
  DeskHouse house;
  DeskWorker first(house, "worker-0"), back(house, "worker-1");
  enter(first);
  enter(back);
  for (std::uint64_t open_round : {1U, 2U}) {
    play(house, first, 1);
    EXPECT_EQ(back.take_verdict(), open_round);
  }
  back.end();
  play(house, first, 1);
  house.save();
  play(house, first, 2);
  const v1::Welcome welcome = back.join(back.round());
  EXPECT_FALSE(welcome.snapshot());
  EXPECT_EQ(welcome.round(), 2U);
  EXPECT_EQ(welcome.open_round(), 5U);
  while (back.round() < 5) EXPECT_EQ(back.take_verdict(), 5U);
  EXPECT_EQ(back.model, house.parameters);
  EXPECT_FALSE(back.join(5).snapshot()) << "nothing missed";
  play(house, first, 1);
  EXPECT_EQ(back.take_verdict(), 6U);
}

TEST(Desk, who_is_far_behind_gets_the_snapshot) {
  DeskHouse house;
  DeskWorker first(house, "worker-0"), back(house, "worker-1");
  enter(first);
  play(house, first, 40);
  EXPECT_FALSE(back.join(0).snapshot()) << "the last one is no newer";
  back.end();
  house.save();
  EXPECT_TRUE(back.join(7).snapshot());
  EXPECT_FALSE(back.join(8).snapshot()) << "32 verdicts are as much as the snapshot";
  house.save(10);
  play(house, first, 1);
  house.save(1);
  EXPECT_EQ(house.journal->oldest(), 40U);
  EXPECT_TRUE(back.join(40).snapshot()) << "the verdict that would prove it is gone";
  EXPECT_FALSE(back.join(41).snapshot());
}

TEST(Desk, who_was_in_another_run_of_the_same_settings_gets_the_snapshot) {
  DeskHouse before, now;  // as if begun anew, or brought back from a backup
  ASSERT_EQ(before.run_id, now.run_id);
  for (DeskHouse* house : {&before, &now}) {
    DeskWorker first(*house, "worker-0");
    enter(first);
    first.vote(house == &before ? house->random_signs() : SignVector(house->parameters.size()));
    house->close(1);
    first.take_verdict();
  }
  const auto verdict = *before.journal->verdict(0);
  ASSERT_NE(verdict, *now.journal->verdict(0));
  v1::FromWorker message = hello("worker-1");
  message.mutable_hello()->set_has_model(true);
  message.mutable_hello()->set_run_id(now.run_id);
  message.mutable_hello()->set_round(1);
  message.mutable_hello()->set_last_verdict(XXH3_64bits(verdict.data(), verdict.size()));
  DeskWorker back(now, "worker-1");
  back.call(message);
  EXPECT_TRUE(back.welcomed().snapshot());
}

// The server sends a verdict when it is on the disk. So a worker that knows a later one proves that the disk
// has lost it, or that this is an older backup: that is said aloud, though the worker gets what it needs.
TEST(Desk, a_worker_that_is_ahead_proves_that_rounds_were_lost) {
  DeskHouse house;
  DeskWorker first(house, "worker-0"), ahead(house, "worker-1"), liar(house, "worker-2");
  enter(first);
  play(house, first, 3);
  house.save();
  play(house, first, 1);
  EXPECT_FALSE(ahead.join(4).snapshot());
  v1::FromWorker other = hello("worker-2");  // of another run, so it proves nothing
  other.mutable_hello()->set_has_model(true);
  other.mutable_hello()->set_run_id(house.run_id + 1);
  other.mutable_hello()->set_round(9);
  liar.call(other);
  EXPECT_TRUE(liar.welcomed().snapshot());
  EXPECT_TRUE(house.log("ROUNDS WERE LOST").empty());
  EXPECT_EQ(house.metric("signvote_lost_state_total"), 0);
  const v1::Welcome welcome = ahead.join(7);
  EXPECT_TRUE(welcome.snapshot());
  EXPECT_EQ(welcome.round(), 3U);
  const auto said = house.log("ROUNDS WERE LOST");
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("worker-1 holds the model after 7 rounds, but this server knows only 4"),
            std::string::npos)
      << said[0];
  EXPECT_EQ(house.metric("signvote_lost_state_total"), 1);
  ahead.fetch_model();
  while (ahead.round() < 4) ahead.take_verdict();
  EXPECT_EQ(ahead.model, house.parameters);
}

TEST(Desk, tells_who_comes_back_whether_it_has_voted) {
  DeskHouse house;
  DeskWorker first(house, "worker-0"), second(house, "worker-1"), third(house, "worker-2");
  for (DeskWorker* worker : {&first, &second, &third}) enter(*worker);
  first.vote();
  ASSERT_TRUE(house.wait_for_votes(1, kConnectSeconds));
  EXPECT_TRUE(first.join(0).voted());
  EXPECT_FALSE(second.join(0).voted());
  second.vote();
  ASSERT_TRUE(house.wait_for_votes(2, kConnectSeconds));
  const RoundRecord record = house.decide();
  EXPECT_TRUE(third.join(0).voted()) << "it is too late for this round";
  house.publish(record);
  for (DeskWorker* worker : {&first, &second, &third}) EXPECT_EQ(worker->take_verdict(), 1U);
  EXPECT_FALSE(first.join(1).voted());
}

TEST(Desk, goes_on_after_a_restart) {
  DeskHouse house;
  {
    DeskWorker first(house, "worker-0");
    enter(first);
    play(house, first, 3);
    first.vote();
    ASSERT_TRUE(house.wait_for_votes(1, kConnectSeconds));
  }
  house.lose_open_round();
  house.server.reset();
  const std::vector<std::string> owners = house.desk->owners();
  house.desk.reset();
  house.tally.restore(Tally(house.tally.options()).snapshot());
  house.box = std::make_unique<BallotBox>(house.tally, house.run_id);
  Replay replay(house.tally, *house.box, owners, "here");
  house.journal->replay([&](const JournalEvent& event) { replay.take(event); });
  house.desk =
      std::make_unique<VoteDesk>(house.desk_options(), *house.box, *house.journal, AllowList(std::nullopt, 3),
                                 replay.owners(), house.metrics, house.audit, [](const std::string&) {});
  house.server = std::make_unique<VoteServer>(DeskHouse::plain_options(), *house.desk);
  DeskWorker first(house, "worker-0"), second(house, "worker-1");
  const v1::Welcome welcome = first.join(2);
  EXPECT_FALSE(welcome.snapshot());
  EXPECT_EQ(welcome.open_round(), 3U);
  EXPECT_FALSE(welcome.voted());
  EXPECT_EQ(first.take_verdict(), 3U) << "from the journal";
  enter(second);
  while (second.round() < 3) second.take_verdict();
  EXPECT_EQ(second.model, house.parameters);
  first.vote();
  second.vote();
  house.close(2);
  EXPECT_EQ(second.take_verdict(), 4U);
  EXPECT_EQ(second.model, house.parameters);
}

// --- One session a worker ------------------------------------------------------------------------

TEST(Desk, a_new_session_of_a_worker_replaces_the_one_before) {
  DeskHouse house;
  DeskWorker before(house, "worker-0"), now(house, "worker-0");
  enter(before);
  enter(now);
  before.ended();
  EXPECT_EQ(house.refusals(), (std::map<std::string, double>{{"replaced", 1}}));
  EXPECT_EQ(house.metric("signvote_workers_connected"), 1);
  play(house, now, 2);
  EXPECT_TRUE(eventually([&] { return house.server->sessions() == 1; }));
}

TEST(Desk, a_replaced_session_is_unwanted_and_cannot_vote) {
  DeskHouse house;
  const auto before = join(house, "worker-0");
  before->next();  // the welcome
  EXPECT_FALSE(before->unwanted());
  DeskWorker now(house, "worker-0");
  enter(now);
  v1::FromWorker message = house.good_ballot(0, 0, house.random_signs());
  EXPECT_FALSE(before->ballot(*message.mutable_ballot())) << "it is ended anyway";
  EXPECT_FALSE(house.wait_for_votes(1, 0));
  const auto refusal = before->unwanted();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->kind, Refusal::Kind::replaced);
  EXPECT_NE(refusal->text.find("took the place of 'worker-0'"), std::string::npos) << refusal->text;
  EXPECT_TRUE(std::holds_alternative<Refusal>(before->next()));
  EXPECT_FALSE(now.join(0).voted());
  now.vote();
  EXPECT_EQ(house.close(1).ballots.size(), 1U);
  EXPECT_EQ(house.ballots("counted"), 1);
  EXPECT_EQ(house.ballots("duplicate"), 0);
  EXPECT_EQ(house.metric("signvote_workers_connected"), 1);
}

TEST(Desk, a_ballot_of_a_replaced_session_stands) {
  DeskHouse house;
  DeskWorker before(house, "worker-0"), now(house, "worker-0");
  enter(before);
  before.vote();
  ASSERT_TRUE(house.wait_for_votes(1, kConnectSeconds));
  EXPECT_TRUE(now.join(0).voted());
  now.send(house.good_ballot(0, 0, house.random_signs()));
  ASSERT_TRUE(eventually([&] { return house.ballots("duplicate") == 1; }));
  EXPECT_EQ(house.close(1).ballots.size(), 1U);
}

// --- Members -------------------------------------------------------------------------------------

TEST(Desk, newcomers_are_written_down_before_they_get_anything) {
  DeskHouse house({.all_known = false});
  DeskWorker newcomer(house, "worker-1");
  newcomer.call();
  EXPECT_FALSE(house.wait_for_votes(1, kConnectSeconds)) << "returns for the newcomer";
  const auto newcomers = house.desk->newcomers();
  ASSERT_EQ(newcomers.size(), 1U);
  EXPECT_EQ(newcomers[0].worker, 1U);
  EXPECT_EQ(newcomers[0].name, "worker-1");
  EXPECT_EQ(house.desk->newcomers().size(), 1U) << "until it is confirmed";
  house.admit();
  EXPECT_TRUE(house.desk->newcomers().empty());
  EXPECT_EQ(newcomer.welcomed().worker(), 1U);
  newcomer.join();
  EXPECT_TRUE(house.desk->newcomers().empty()) << "the slot is its own now";
}

TEST(Desk, who_is_taken_off_the_list_is_sent_away) {
  DeskHouse house({.workers = 2, .allow = "alice = 0\nbob = 1\n"});
  DeskWorker alice(house, "alice"), bob(house, "bob");
  alice.call();
  bob.call();
  house.admit(2);
  alice.welcomed();
  bob.welcomed();
  EXPECT_FALSE(house.desk->reload_allow_list()) << "nothing has changed";
  house.set_allowed("bob = 1\n");
  EXPECT_TRUE(house.desk->reload_allow_list());
  EXPECT_FALSE(house.desk->reload_allow_list());
  house.server->wake();
  alice.ended();
  EXPECT_EQ(house.refusals(), (std::map<std::string, double>{{"no_longer_allowed", 1}}));
  alice.call();
  alice.ended();
  EXPECT_EQ(house.refusals()["unknown_worker"], 1);
  bob.vote();
  house.close(1);
  bob.fetch_model();
  EXPECT_EQ(bob.take_verdict(), 1U);
}

TEST(Desk, who_is_taken_off_the_list_cannot_vote_before_it_is_told) {
  DeskHouse house({.workers = 2, .allow = "alice = 0\nbob = 1\n"});
  const auto alice = join(house, "alice");
  house.admit();
  alice->next();  // the welcome
  house.set_allowed("bob = 1\n");
  EXPECT_TRUE(house.desk->reload_allow_list());
  v1::FromWorker message = house.good_ballot(0, 0, house.random_signs());
  const auto refusal = alice->ballot(*message.mutable_ballot());
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->kind, Refusal::Kind::not_allowed);
  EXPECT_EQ(refusal->reason, "no_longer_allowed");
  EXPECT_NE(refusal->text.find("no longer"), std::string::npos) << refusal->text;
  EXPECT_FALSE(house.wait_for_votes(1, 0));
}

TEST(Desk, a_slot_given_to_another_name_forgets_the_one_before) {
  DeskHouse house({.workers = 2, .allow = "alice = 0\nbob = 1\n"});
  DeskWorker alice(house, "alice"), bob(house, "bob"), carol(house, "carol");
  alice.call();
  bob.call();
  house.admit(2);
  alice.welcomed();
  bob.welcomed();
  for (DeskWorker* worker : {&alice, &bob}) worker->fetch_model();
  for (int round = 0; round < 3; ++round) {
    alice.vote();
    bob.vote();
    house.close(2);
    alice.take_verdict();
    bob.take_verdict();
  }
  alice.vote();  // in the round in which she is taken off
  ASSERT_TRUE(house.wait_for_votes(1, kConnectSeconds));
  house.set_allowed("carol = 0\nbob = 1\n");
  EXPECT_TRUE(house.desk->reload_allow_list());
  house.server->wake();
  alice.ended();
  carol.call();
  ASSERT_TRUE(eventually([&] { return !house.log("carol (").empty(); }));
  EXPECT_TRUE(house.desk->newcomers().empty()) << "alice's ballot stands: the slot is hers for this round";
  EXPECT_FALSE(house.wait_for_votes(2, 0.01));
  bob.vote();
  house.close(2);
  bob.take_verdict();

  EXPECT_EQ(house.tally.rounds_of(0), 4U);
  EXPECT_GT(house.tally.total_half_errors(0), 0);
  const auto of_bob = house.tally.half_errors(1);
  house.admit();
  EXPECT_EQ(house.desk->owners(), (std::vector<std::string>{"carol", "bob"}));
  EXPECT_EQ(house.tally.rounds_of(0), 0U);
  EXPECT_EQ(house.tally.total_half_errors(0), 0);
  EXPECT_EQ(house.tally.rounds_of(1), 4U);
  EXPECT_EQ(house.tally.half_errors(1), of_bob);
  house.judge.forget(0);
  const v1::Welcome welcome = carol.welcomed();
  EXPECT_EQ(welcome.worker(), 0U);
  EXPECT_EQ(welcome.open_round(), 4U);
  carol.fetch_model();
  while (carol.round() < 4) carol.take_verdict();
  for (int round = 0; round < 3; ++round) {
    carol.vote();
    bob.vote();
    house.close(2);
    carol.take_verdict();
    bob.take_verdict();
    EXPECT_EQ(carol.model, house.parameters);
  }

  // The same from the journal.
  Tally again(house.tally.options());
  BallotBox box(again, house.run_id);
  Replay replay(again, box, std::vector<std::string>(2), "here");
  house.journal->replay([&](const JournalEvent& event) { replay.take(event); });
  EXPECT_EQ(replay.owners(), house.desk->owners());
  EXPECT_EQ(again.snapshot(), house.tally.snapshot());
}

TEST(Desk, keeps_the_list_it_has_if_the_new_one_makes_no_sense) {
  DeskHouse house({.workers = 2, .allow = "alice = 0\nbob = 1\n"});
  DeskWorker alice(house, "alice");
  alice.call();
  house.admit();
  alice.welcomed();
  for (const char* text : {"alice = = 0\n", "", "alice = 2\n"}) {
    house.set_allowed(text);
    for (int look = 0; look < 3; ++look) EXPECT_FALSE(house.desk->reload_allow_list());
  }
  EXPECT_EQ(house.log("the changed allow-list is not used: ").size(), 3U) << "once each";
  house.server->wake();
  alice.vote();
  house.close(1);
  alice.fetch_model();
  EXPECT_EQ(alice.take_verdict(), 1U);
}

// --- The end -------------------------------------------------------------------------------------

TEST(Desk, everybody_hears_of_the_end) {
  DeskHouse house;
  DeskWorker first(house, "worker-0"), slow(house, "worker-1"), away(house, "worker-2");
  enter(first);
  enter(slow);
  play(house, first, 3);
  house.desk->finish();
  house.server->wake();
  std::jthread server([&] { house.desk->wait_until_all_know(kConnectSeconds); });
  const auto expect_the_end = [&](DeskWorker& worker) {
    while (worker.round() < 3) worker.take_verdict();
    EXPECT_EQ(worker.model, house.parameters);
    ASSERT_TRUE(worker.receive());
    ASSERT_TRUE(worker.last().has_finished());
    EXPECT_EQ(worker.last().finished().rounds(), 3U);
    EXPECT_EQ(worker.ended().kind, Kind::done);
  };
  expect_the_end(first);
  expect_the_end(slow);
  enter(away);  // only now
  expect_the_end(away);
  server.join();
  house.server->wait_for_goodbyes(kConnectSeconds);
  EXPECT_EQ(house.server->sessions(), 0U);
  EXPECT_TRUE(house.refusals().empty());
}

TEST(Desk, does_not_wait_for_those_who_never_came_or_may_not_come) {
  DeskHouse house({.workers = 3, .allow = "alice = 0\nbob = 1\ncarol = 2\n"});
  DeskWorker alice(house, "alice"), bob(house, "bob");
  alice.call();
  bob.call();
  house.admit(2);
  alice.welcomed();
  bob.welcomed();
  house.set_allowed("bob = 1\ncarol = 2\n");
  house.desk->reload_allow_list();
  house.desk->finish();
  house.server->wake();
  bob.ended();
  const auto start = std::chrono::steady_clock::now();
  house.desk->wait_until_all_know(10 * kConnectSeconds);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kHanging);
}

TEST(Desk, waits_only_so_long_for_those_who_are_away) {
  DeskHouse house;
  house.desk->finish();
  house.desk->wait_until_all_know(0.01);
}

TEST(Desk, a_newcomer_after_the_end_hears_of_it) {
  DeskHouse house({.all_known = false});
  DeskWorker early(house, "worker-0"), newcomer(house, "worker-1");
  early.call();
  ASSERT_TRUE(eventually([&] { return house.desk->newcomers().size() == 1; }));
  house.desk->finish();
  house.server->wake();
  for (DeskWorker* worker : {&early, &newcomer}) {
    if (worker == &newcomer) worker->call();
    worker->welcomed();
    worker->fetch_model();
    ASSERT_TRUE(worker->receive());
    EXPECT_TRUE(worker->last().has_finished());
    EXPECT_EQ(worker->ended().kind, Kind::done);
  }
}

// --- Slow workers --------------------------------------------------------------------------------

/// That a session asks for the next message only when one has left is for vote_session_test.cpp.
TEST(Desk, makes_nothing_for_who_does_not_ask) {
  constexpr std::uint64_t kRounds = 300;
  DeskHouse house({.method = Method::mv});
  DeskWorker quick(house, "worker-0");
  enter(quick);
  const auto slow = join(house, "worker-1");
  const auto next = [&slow] {
    auto answer = slow->next();
    v1::ToWorker message;
    std::vector<grpc::Slice> slices;
    if (auto* bytes = std::get_if<grpc::ByteBuffer>(&answer); bytes != nullptr && bytes->Dump(&slices).ok()) {
      std::string text;
      for (const grpc::Slice& slice : slices) text.append(slice.begin(), slice.end());
      EXPECT_TRUE(message.ParseFromString(text));
    }
    return message;
  };
  EXPECT_EQ(next().welcome().round(), 0U);
  const double snapshots = house.metric("signvote_snapshot_bytes_total");
  play(house, quick, kRounds);
  EXPECT_EQ(house.metric("signvote_snapshot_bytes_total"), snapshots);
  const double to_quick = house.metric("signvote_verdict_bytes_total");
  EXPECT_TRUE(next().has_chunk());
  std::vector<float> model(house.parameters.size());
  double made = 0;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    ASSERT_EQ(house.metric("signvote_verdict_bytes_total") - to_quick, made) << "one at a time";
    const v1::ToWorker message = next();
    made = house.metric("signvote_verdict_bytes_total") - to_quick;
    ASSERT_TRUE(message.has_verdict());
    EXPECT_EQ(message.verdict().open_round(), kRounds);
    SignVector verdict;
    std::string problem;
    ASSERT_TRUE(decode(std::as_bytes(std::span(message.verdict().message())), house.verdict_header(round),
                       verdict, problem))
        << problem;
    step(model, verdict, Step{message.verdict().step(), message.verdict().decay()});
  }
  EXPECT_EQ(model, house.parameters);
  EXPECT_TRUE(std::holds_alternative<Session::Nothing>(slow->next()));
}

TEST(Desk, a_slow_reader_gets_every_verdict_in_order) {
  DeskHouse house({.size = 100'000, .method = Method::mv});
  DeskWorker quick(house, "worker-0"), slow(house, "worker-1");
  enter(quick);
  enter(slow);
  for (int i = 0; i < 8; ++i) {
    play(house, quick, 5);
    if (i == 3) house.save();
    for (int read = 0; read < 2; ++read) slow.take_verdict();
  }
  while (slow.round() < 40) slow.take_verdict();
  EXPECT_EQ(slow.model, house.parameters);
}

TEST(Desk, who_is_so_slow_that_its_verdicts_are_gone_can_come_back) {
  DeskHouse house;
  DeskWorker quick(house, "worker-0");
  enter(quick);
  const auto slow = join(house, "worker-1");
  slow->next();  // the welcome
  slow->next();  // the snapshot
  for (int i = 0; i < 3; ++i) {
    play(house, quick, 2);
    house.save(1);
  }
  const auto next = slow->next();
  const Refusal* refusal = std::get_if<Refusal>(&next);
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(refusal->reason, "verdict_dropped");
  EXPECT_EQ(refusal->kind, Refusal::Kind::shutting_down) << "so that the worker tries again";
  DeskWorker back(house, "worker-1");
  EXPECT_TRUE(back.join(0).snapshot());
  back.fetch_model();
  EXPECT_EQ(back.model, house.parameters);
}

}  // namespace
}  // namespace signvote
