// What strangers, and workers that lost their mind, may try at the desk: docs/security.md has the tables.
// Each ends as it says there, and the round of the others closes with the right verdict.
#include <cmath>
#include <cstring>

#include "engine/desk_house.h"

namespace signvote {
namespace {

using Kind = SessionEnd::Kind;
using Refusals = std::map<std::string, double>;

struct Attack {
  std::string what;
  std::string reason;
  std::function<v1::FromWorker(DeskHouse&)> message;
};

/// The bytes of worker 2's good ballot for round 0.
std::string good_bytes(DeskHouse& house) {
  return DeskHouse::encoded(house.ballot_header(2, 0), house.random_signs());
}

/// Worker 2's ballot for round 0, but for the header.
v1::FromWorker with_header(DeskHouse& house, const std::function<void(MessageHeader&)>& change,
                           std::uint64_t round = 0) {
  MessageHeader header = house.ballot_header(2, 0);
  change(header);
  return ballot(round, DeskHouse::encoded(header, house.random_signs(header.size)));
}

v1::FromWorker with_byte(DeskHouse& house, std::size_t at) {
  std::string bytes = good_bytes(house);
  bytes[at] = static_cast<char>(bytes[at] ^ 4);
  return ballot(0, bytes);
}

v1::FromWorker with_batch(DeskHouse& house, std::uint32_t samples, double loss) {
  v1::FromWorker message = ballot(0, good_bytes(house));
  message.mutable_ballot()->set_batch(samples);
  message.mutable_ballot()->set_loss(loss);
  return message;
}

v1::FromWorker with_test(DeskHouse& house, double accuracy, double loss) {
  v1::FromWorker message = with_batch(house, 4, 1);
  message.mutable_ballot()->set_test_accuracy(accuracy);
  message.mutable_ballot()->set_test_loss(loss);
  return message;
}

const std::vector<Attack> kAttacks = {
    {"another run", "wrong_run",
     [](DeskHouse& house) { return with_header(house, [](MessageHeader& h) { ++h.run_id; }); }},
    {"another worker", "wrong_worker",
     [](DeskHouse& house) { return with_header(house, [](MessageHeader& h) { h.worker = 0; }); }},
    {"a worker that does not exist", "wrong_worker",
     [](DeskHouse& house) { return with_header(house, [](MessageHeader& h) { h.worker = 7; }); }},
    {"a round to come", "wrong_round",
     [](DeskHouse& house) {
       return with_header(
           house, [](MessageHeader& h) { h.round = 1; }, 1);
     }},
    {"the last of all rounds", "wrong_round",
     [](DeskHouse& house) {
       return with_header(
           house, [](MessageHeader& h) { h.round = UINT64_MAX; }, UINT64_MAX);
     }},
    {"another round inside", "wrong_round",
     [](DeskHouse& house) { return with_header(house, [](MessageHeader& h) { h.round = 5; }); }},
    {"too few coordinates", "wrong_size",
     [](DeskHouse& house) { return with_header(house, [](MessageHeader& h) { h.size = 999; }); }},
    {"too many coordinates", "wrong_size",
     [](DeskHouse& house) { return with_header(house, [](MessageHeader& h) { h.size = 1001; }); }},
    {"a verdict", "malformed",
     [](DeskHouse& house) {
       return ballot(0, DeskHouse::encoded(house.verdict_header(0), house.random_signs()));
     }},
    {"another wire version", "malformed", [](DeskHouse& house) { return with_byte(house, 4); }},
    {"another magic", "malformed", [](DeskHouse& house) { return with_byte(house, 0); }},
    {"a flipped bit in the body", "malformed", [](DeskHouse& house) { return with_byte(house, 100); }},
    {"a flipped bit in the checksum", "malformed", [](DeskHouse& house) { return with_byte(house, 56); }},
    {"a byte less", "malformed",
     [](DeskHouse& house) {
       const std::string bytes = good_bytes(house);
       return ballot(0, bytes.substr(0, bytes.size() - 1));
     }},
    {"a byte more", "malformed", [](DeskHouse& house) { return ballot(0, good_bytes(house) + "x"); }},
    {"a header alone", "malformed",
     [](DeskHouse& house) { return ballot(0, good_bytes(house).substr(0, kHeaderBytes)); }},
    {"a single byte", "malformed", [](DeskHouse&) { return ballot(0, "S"); }},
    {"more than any ballot", "too_large", [](DeskHouse&) { return ballot(0, std::string(5000, 'S')); }},
    {"no samples", "wrong_batch", [](DeskHouse& house) { return with_batch(house, 0, 0); }},
    {"more samples than there are", "wrong_batch", [](DeskHouse& house) { return with_batch(house, 61, 1); }},
    {"a loss that is no number", "wrong_loss", [](DeskHouse& house) { return with_batch(house, 4, NAN); }},
    {"an infinite loss", "wrong_loss", [](DeskHouse& house) { return with_batch(house, 4, -INFINITY); }},
    {"a loss beyond all reason", "wrong_loss", [](DeskHouse& house) { return with_batch(house, 4, 1e30); }},
    {"an accuracy above 1", "wrong_test", [](DeskHouse& house) { return with_test(house, 1.01, 0); }},
    {"an accuracy that is no number", "wrong_test",
     [](DeskHouse& house) { return with_test(house, NAN, 0); }},
    {"a test's infinite loss", "wrong_test", [](DeskHouse& house) { return with_test(house, 1, INFINITY); }},
    {"a second hello", "second_hello", [](DeskHouse&) { return hello("worker-2"); }},
    {"nothing", "empty_message", [](DeskHouse&) { return v1::FromWorker(); }},
};

TEST(HostileBallots, end_their_session_and_nothing_else) {
  for (const Attack& attack : kAttacks) {
    SCOPED_TRACE(attack.what);
    DeskHouse house;
    DeskWorker first(house, "worker-0"), second(house, "worker-1"), hostile(house, "worker-2");
    first.join();
    second.join();
    hostile.join();
    first.vote();
    hostile.send(attack.message(house));
    const SessionEnd end = hostile.ended();
    EXPECT_EQ(end.kind, Kind::refused);
    EXPECT_EQ(end.text.find('\n'), std::string::npos) << end.text;
    EXPECT_EQ(end.text.find("a ballot for round 0"), std::string::npos) << "there is none; " << end.text;
    EXPECT_EQ(house.refusals(), (Refusals{{attack.reason, 1}}));
    ASSERT_EQ(house.log("refused").size(), 1U);
    EXPECT_NE(house.log("refused")[0].find("(" + attack.reason + ")"), std::string::npos);
    EXPECT_EQ(house.log("refused")[0].find('\n'), std::string::npos);

    second.vote();
    EXPECT_TRUE(house.wait_for_votes(2, kConnectSeconds));
    EXPECT_FALSE(house.wait_for_votes(3, 0)) << "it was counted";
    EXPECT_FALSE(hostile.join().voted());
    hostile.fetch_model();
    hostile.vote();  // having come to its senses
    house.close(3);
    EXPECT_EQ(house.ballots("counted"), 3);
    for (DeskWorker* worker : {&first, &second}) worker->fetch_model();
    for (DeskWorker* worker : {&first, &second, &hostile}) {
      EXPECT_EQ(worker->take_verdict(), 1U);
      EXPECT_EQ(worker->model, house.parameters);
    }
  }
}

TEST(HostileBallots, a_second_one_is_not_counted) {
  DeskHouse house;
  DeskWorker first(house, "worker-0"), second(house, "worker-1"), twice(house, "worker-2");
  for (DeskWorker* worker : {&first, &second, &twice}) worker->join();
  twice.vote();
  for (int i = 0; i < 3; ++i) twice.send(house.good_ballot(2, 0, house.random_signs()));
  twice.send(ballot(0, "not even a ballot"));
  ASSERT_TRUE(eventually([&] { return house.ballots("duplicate") == 4; }));
  EXPECT_EQ(house.log("worker-2: a duplicate ballot for round 1 is not counted").size(), 1U)
      << "a line in a round";
  EXPECT_EQ(house.ballots("counted"), 1);
  EXPECT_FALSE(house.wait_for_votes(2, 0));
  first.vote();
  second.vote();
  const RoundRecord record = house.close(3);
  EXPECT_EQ(record.ballots.size(), 3U);
  EXPECT_TRUE(house.refusals().empty());
  for (DeskWorker* worker : {&first, &second, &twice}) {
    worker->fetch_model();
    EXPECT_EQ(worker->take_verdict(), 1U) << "its session goes on";
  }
}

TEST(HostileBallots, an_abstention_is_an_answer_that_cannot_be_taken_back) {
  DeskHouse house;
  DeskWorker first(house, "worker-0"), second(house, "worker-1");
  first.join();
  second.join();
  second.send(ballot(0, ""));
  ASSERT_TRUE(eventually([&] { return house.ballots("abstained") == 1; }));
  second.send(house.good_ballot(1, 0, house.random_signs()));
  ASSERT_TRUE(eventually([&] { return house.ballots("duplicate") == 1; }));
  first.vote();
  const RoundRecord record = house.close(1);
  ASSERT_EQ(record.ballots.size(), 2U);
  EXPECT_TRUE(record.ballots[1].message.empty());
  EXPECT_EQ(house.ballots("abstained"), 1);
  EXPECT_EQ(house.ballots("counted"), 1);
}

TEST(HostileBallots, for_a_closed_or_closing_round_are_late) {
  DeskHouse house;
  DeskWorker first(house, "worker-0"), late(house, "worker-1");
  first.join();
  late.join();
  first.vote();
  ASSERT_TRUE(house.wait_for_votes(1, kConnectSeconds));
  const RoundRecord record = house.decide();  // decided, not yet on the disk
  EXPECT_EQ(record.ballots.size(), 1U);
  late.send(house.good_ballot(1, 0, house.random_signs()));
  ASSERT_TRUE(eventually([&] { return house.ballots("late") == 1; }));
  house.publish(record);
  late.send(house.good_ballot(1, 0, house.random_signs()));
  late.send(ballot(0, "not even a ballot"));
  ASSERT_TRUE(eventually([&] { return house.ballots("late") == 3; }));
  EXPECT_EQ(house.log("worker-1: a late ballot for round 1 is not counted").size(), 2U)
      << "a line in a round";
  EXPECT_FALSE(house.wait_for_votes(1, 0)) << "it was taken for the next round";
  EXPECT_TRUE(house.refusals().empty());
  for (DeskWorker* worker : {&first, &late}) {
    worker->fetch_model();
    EXPECT_EQ(worker->take_verdict(), 1U);
    worker->vote();
  }
  EXPECT_EQ(house.close(2).ballots.size(), 2U);
}

/// Many ballots at once, of which some come while the round closes: those that are counted are those
/// recorded, and the verdict is theirs.
TEST(HostileBallots, a_race_with_the_closing_loses_or_counts) {
  DeskHouse house({.workers = 4, .method = Method::mv});
  std::vector<std::unique_ptr<DeskWorker>> workers;
  for (std::uint32_t m = 0; m < 4; ++m) {
    workers.push_back(std::make_unique<DeskWorker>(house, DeskHouse::name(m)));
    workers.back()->join();
    workers.back()->fetch_model();
  }
  for (std::uint64_t round = 0; round < 30; ++round) {
    std::vector<SignVector> signs;
    for (std::uint32_t m = 0; m < 4; ++m) signs.push_back(house.random_signs());
    std::vector<std::jthread> threads;
    for (std::uint32_t m = 0; m < 4; ++m)
      threads.emplace_back([&, m] { workers[m]->send(house.good_ballot(m, round, signs[m])); });
    ASSERT_TRUE(house.wait_for_votes(1 + round % 3, kConnectSeconds));
    const RoundRecord record = house.close_unjudged();
    Tally judge({Method::mv, 4, 0, 1000, 2, 10});
    std::vector<std::optional<SignView>> present(4);
    for (const CastBallot& ballot : record.ballots) present[ballot.worker] = signs[ballot.worker];
    SignVector expected, decided;
    judge.decide(present, expected);
    std::string problem;
    ASSERT_TRUE(decode(record.verdict, house.verdict_header(round), decided, problem)) << problem;
    EXPECT_TRUE(decided == expected);
    threads.clear();
    house.publish(record);
    for (const auto& worker : workers) EXPECT_EQ(worker->take_verdict(), round + 1);
    ASSERT_TRUE(
        eventually([&] { return house.ballots("counted") + house.ballots("late") == 4.0 * (round + 1.0); }));
  }
  EXPECT_TRUE(house.refusals().empty());
}

TEST(HostileHellos, are_refused) {
  struct Case {
    std::string reason;
    v1::FromWorker message;
  };
  v1::FromWorker other_protocol = hello("worker-2");
  other_protocol.mutable_hello()->set_protocol(1);
  v1::FromWorker no_protocol = hello("worker-2");
  no_protocol.mutable_hello()->set_protocol(0);
  const std::vector<Case> cases = {
      {"wrong_version", other_protocol},
      {"wrong_version", no_protocol},
      {"unknown_worker", hello("worker-3")},
      {"unknown_worker", hello("mallory")},
      {"bad_name", hello("")},
      {"bad_name", hello("worker-2\nworker-0 left")},
      {"bad_name", hello(std::string(65, 'w'))},
      {"no_hello", ballot(0, "+-")},
      {"empty_message", v1::FromWorker()},
      {"too_large", hello(std::string(5000, 'w'))},
  };
  for (const auto& [reason, message] : cases) {
    SCOPED_TRACE(reason);
    DeskHouse house;
    DeskWorker honest(house, "worker-0"), hostile(house, "");
    honest.join();
    hostile.call(message);
    EXPECT_EQ(hostile.ended().kind, Kind::refused);
    EXPECT_EQ(house.refusals(), (Refusals{{reason, 1}}));
    EXPECT_EQ(house.log("refused").size(), 1U);
    for (const std::string& line : house.log()) EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_EQ(house.metric("signvote_workers_connected"), 1);
    honest.vote();
    house.close(1);
    honest.fetch_model();
    EXPECT_EQ(honest.take_verdict(), 1U);
  }
}

TEST(HostileHellos, cannot_write_lines_into_the_log) {
  DeskHouse house;
  DeskWorker worker(house, "worker-0");
  v1::FromWorker message = hello("worker-0");
  message.mutable_hello()->set_program("signvote\nworker-1 left\x1b[2J" + std::string(500, 'x'));
  worker.call(message);
  worker.welcomed();
  ASSERT_EQ(house.log().size(), 1U);
  EXPECT_EQ(house.log()[0].find('\n'), std::string::npos);
  EXPECT_EQ(house.log()[0].find('\x1b'), std::string::npos);
  EXPECT_LT(house.log()[0].size(), 250U);
}

TEST(HostileHellos, that_lie_about_their_model_get_the_snapshot) {
  DeskHouse house;
  DeskWorker worker(house, "worker-0");
  for (const std::uint64_t round : {std::uint64_t{1}, std::uint64_t{1000}, UINT64_MAX, UINT64_MAX - 31}) {
    const v1::Welcome welcome = worker.join(round);
    EXPECT_TRUE(welcome.snapshot()) << round;
    EXPECT_EQ(welcome.round(), 0U);
    worker.fetch_model();
    EXPECT_EQ(worker.model, house.parameters);
  }
  v1::FromWorker other_run = hello("worker-0");
  other_run.mutable_hello()->set_has_model(true);
  other_run.mutable_hello()->set_run_id(house.run_id + 1);
  worker.call(other_run);
  EXPECT_TRUE(worker.welcomed().snapshot());
}

TEST(HostileBallots, come_before_the_welcome) {
  DeskHouse house({.all_known = false});
  DeskWorker impatient(house, "worker-2");
  impatient.call();
  ASSERT_TRUE(impatient.send(house.good_ballot(2, 0, house.random_signs())));
  EXPECT_EQ(impatient.ended().kind, Kind::refused);
  EXPECT_EQ(house.refusals(), (Refusals{{"no_welcome", 1}}));
  // Else it could be the newcomer that is admitted below.
  ASSERT_TRUE(eventually([&] { return house.metric("signvote_workers_connected") == 0; }));
  DeskWorker honest(house, "worker-0");
  honest.call();
  house.admit();
  honest.welcomed();
  honest.vote();
  EXPECT_EQ(house.close(1).ballots.size(), 1U);
}

TEST(HostileWorkers, are_who_their_certificate_says) {
  DeskHouse house({.workers = 2, .tls = true, .allow = "ann = 0\nbob = 1\n"});
  DeskWorker ann(house, "bob", certificates().pair("ours", "ann"));  // "bob" is what it claims
  DeskWorker bob(house, "bob", certificates().pair("ours", "bob"));
  ann.call();
  bob.call();
  house.admit(2);
  EXPECT_EQ(ann.welcomed().worker(), 0U);
  EXPECT_EQ(bob.welcomed().worker(), 1U);
  EXPECT_EQ(house.desk->owners(), (std::vector<std::string>{"ann", "bob"}));
  ASSERT_TRUE(ann.send(house.good_ballot(1, 0, house.random_signs())));
  EXPECT_EQ(ann.ended().kind, Kind::refused);
  EXPECT_EQ(house.refusals(), (Refusals{{"wrong_worker", 1}}));
  bob.vote();
  ASSERT_TRUE(house.wait_for_votes(1, kConnectSeconds));
  ann.join();
  ann.vote();
  const RoundRecord record = house.close(2);
  ASSERT_EQ(record.ballots.size(), 2U);
  ann.fetch_model();
  EXPECT_EQ(ann.take_verdict(), 1U);
}

TEST(HostileWorkers, that_are_not_on_the_list_are_refused_in_the_handshake) {
  DeskHouse house({.workers = 2, .tls = true, .allow = "ann = 0\nbob = 1\n"});
  VoteClient carol(client_options(*house.server, "carol"));
  std::jthread patient([&carol] { EXPECT_FALSE(carol.begin(kConnectSeconds)); });
  EXPECT_TRUE(eventually([&] { return house.refusals()["unknown_worker"] >= 1; }));
  carol.cancel();
  patient.join();
  ASSERT_GE(house.log("'carol' is not on the server's allow-list (unknown_worker)").size(), 1U);
}

TEST(HostileWorkers, with_anothers_key_are_refused_and_sent_away) {
  const std::string anns = identity(certificates().pair("ours", "ann").certificate)->key;
  const std::string pinned = "ann = { worker = 0, key = \"" + anns + "\" }\nbob = 1\n";
  DeskHouse house({.workers = 2, .tls = true, .allow = pinned});
  DeskWorker ann(house, "", certificates().pair("ours", "ann"));
  DeskWorker bob(house, "", certificates().pair("ours", "bob"));
  for (DeskWorker* worker : {&ann, &bob}) worker->call();
  house.admit(2);
  ann.welcomed();
  bob.welcomed();
  ASSERT_TRUE(eventually([&] { return house.metric("signvote_workers_connected") == 2; }));

  const std::string other = "sha256:" + std::string(64, '0');
  EXPECT_EQ(house.desk->admit({"ann", anns}), std::nullopt);
  EXPECT_EQ(house.desk->admit({"ann", other}).value().reason, "wrong_key");
  EXPECT_EQ(house.desk->admit({"bob", other}), std::nullopt) << "no key is pinned";
  house.set_allowed("ann = { worker = 0, key = \"" + other + "\" }\nbob = 1\n");
  EXPECT_TRUE(house.desk->reload_allow_list());
  house.server->wake();
  // If a message is on its way to her just then, the session is cut, because the reason would wait behind it.
  const SessionEnd end = ann.ended();
  EXPECT_TRUE(end.kind == Kind::refused || end.kind == Kind::lost) << end.text;
  EXPECT_TRUE(eventually([&] { return house.refusals() == Refusals{{"wrong_key", 1}}; }));
  EXPECT_TRUE(eventually([&] { return house.metric("signvote_workers_connected") == 1; }));
}

TEST(HostileWorkers, that_connect_again_and_again_are_refused_for_a_while) {
  DeskHouse house({.workers = 2, .allow = "ann = 0\nbob = 1\n"});
  int admitted = 0;
  while (!house.desk->admit({"ann", ""})) ASSERT_LT(++admitted, 1000000);
  EXPECT_EQ(house.desk->admit({"bob", ""}), std::nullopt) << "the others are not";
}

TEST(HostileWorkers, without_our_certificates_get_no_session) {
  DeskHouse house({.workers = 2, .tls = true, .allow = "ann = 0\nbob = 1\n"});
  VoteClientOptions options = client_options(*house.server);
  options.keys = certificates().pair("foreign", "ann");
  VoteClient foreign(options);
  std::jthread patient([&foreign] { EXPECT_FALSE(foreign.begin(kConnectSeconds)); });
  EXPECT_TRUE(eventually([&] { return house.refusals()["tls_handshake"] >= 1; }));
  foreign.cancel();
  patient.join();
  EXPECT_GE(house.log("(tls_handshake)").size(), 1U);
  EXPECT_EQ(house.metric("signvote_workers_connected"), 0);
  DeskWorker ann(house, "", certificates().pair("ours", "ann"));
  ann.call();
  house.admit();
  EXPECT_EQ(ann.welcomed().worker(), 0U);
}

}  // namespace
}  // namespace signvote
