// What a journal should hold, kept in memory in the plainest way, and a comparison that says where the
// two differ.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "journal/journal.h"
#include "signvote/error.h"
#include "signvote/sign_vector.h"
#include "signvote/wire.h"

namespace signvote {

using Bytes = std::vector<std::byte>;

/// Another one each round, so that a wrong round's would be seen.
inline Step step_of(std::uint64_t round) {
  return {0.125F * static_cast<float>(round % 5), 0.0625F * static_cast<float>(round % 3)};
}
inline constexpr std::uint64_t kAll = UINT64_MAX;

inline Bytes random_bytes(std::size_t count, std::mt19937_64& random) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

inline bool same(const MemberRecord& a, const MemberRecord& b) {
  return a.worker == b.worker && a.name == b.name;
}

inline bool same(const CastBallot& a, const CastBallot& b) {
  return a.worker == b.worker && a.batch == b.batch && a.message == b.message &&
         std::bit_cast<std::uint64_t>(a.loss) == std::bit_cast<std::uint64_t>(b.loss);
}

inline bool same(const JournalEvent& a, const JournalEvent& b) {
  if (a.index() != b.index()) return false;
  if (const auto* member = std::get_if<MemberRecord>(&a)) return same(*member, std::get<MemberRecord>(b));
  const auto &x = std::get<RoundRecord>(a), &y = std::get<RoundRecord>(b);
  return x.round == y.round && x.verdict == y.verdict &&
         std::ranges::equal(x.ballots, y.ballots,
                            [](const CastBallot& c, const CastBallot& d) { return same(c, d); });
}

/// The ballots one by one, then the verdict.
inline void record(Journal& journal, const RoundRecord& round) {
  std::vector<std::uint32_t> counted;
  for (const CastBallot& ballot : round.ballots) {
    journal.append(round.round, ballot);
    counted.push_back(ballot.worker);
  }
  journal.append(round.round, counted, round.verdict);
}

struct JournalModel {
  std::uint64_t start = 0;
  State snapshot;
  std::vector<JournalEvent> since;
  std::vector<Bytes> verdicts;              // of all rounds, from `start` on
  std::vector<std::vector<float>> history;  // the parameters after 0, 1, ... of them
  std::vector<std::uint64_t> files;         // where each verdict file ends
  std::uint64_t oldest = 0;

  explicit JournalModel(const State& first)
      : start(first.round), snapshot(first), history{first.parameters}, oldest(first.round) {}

  std::uint64_t rounds() const { return start + verdicts.size(); }

  void append(const JournalEvent& event) {
    since.push_back(event);
    const auto* round = std::get_if<RoundRecord>(&event);
    if (round == nullptr) return;
    SignVector signs;
    std::string problem;
    std::vector<float> parameters = history.back();
    const MessageHeader about{MessageKind::verdict, 7, round->round, 0, parameters.size()};
    if (!decode(round->verdict, about, signs, problem)) throw std::logic_error(problem);
    const Step by = step_of(round->round);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (by.decay != 0) parameters[i] -= by.decay * parameters[i];
      if (signs[i] != 0) parameters[i] -= by.delta * static_cast<float>(signs[i]);
    }
    history.push_back(std::move(parameters));
    verdicts.push_back(round->verdict);
  }

  void take_snapshot(const State& next, std::uint64_t keep) {
    if (next.round > snapshot.round) {
      files.push_back(next.round);
      since.clear();
    }
    snapshot = next;
    while (!files.empty() && next.round - files.front() >= keep) {
      oldest = files.front();
      files.erase(files.begin());
    }
  }

  std::set<std::string> names() const {
    std::set<std::string> names = {fmt::format("base-{}.bin", oldest),
                                   fmt::format("snapshot-{}.bin", snapshot.round),
                                   fmt::format("rounds-{}.log", snapshot.round)};
    for (std::size_t i = 0; i < files.size(); ++i)
      names.insert(fmt::format("verdicts-{}-{}.log", i == 0 ? oldest : files[i - 1], files[i]));
    return names;
  }

  // What comes next, at random. There are few workers, so that some vote twice.
  static CastBallot any_ballot(std::mt19937_64& random) {
    return {.worker = static_cast<std::uint32_t>(random() % 6 * 0x33333333),
            .batch = static_cast<std::uint32_t>(random()),
            .loss = std::bit_cast<double>(random()),
            .message = random_bytes(random() % 20, random)};
  }

  Bytes any_verdict(std::mt19937_64& random) const {
    SignVector signs(history.back().size());
    for (std::size_t i = 0; i < signs.size(); ++i) signs.set(i, static_cast<int>(random() % 3) - 1);
    Bytes verdict;
    encode({MessageKind::verdict, 7, rounds(), 0, signs.size()}, signs, verdict);
    return verdict;
  }

  RoundRecord any_round(std::mt19937_64& random) const {
    std::map<std::uint32_t, CastBallot> cast;
    for (auto count = random() % 4; count > 0; --count) {
      const CastBallot ballot = any_ballot(random);
      cast[ballot.worker] = ballot;
    }
    RoundRecord round{.round = rounds(), .ballots = {}, .verdict = any_verdict(random)};
    for (const auto& [worker, ballot] : cast) round.ballots.push_back(ballot);
    return round;
  }

  static MemberRecord any_member(std::mt19937_64& random) {
    return {.worker = static_cast<std::uint32_t>(random()), .name = std::string(random() % 9, 'm')};
  }

  State any_snapshot(std::mt19937_64& random) const {
    return {.round = rounds(),
            .notes = std::string(random() % 30, 'n'),
            .parameters = history.back(),
            .tally = random_bytes(random() % 50, random)};
  }

  /// Where the journal differs, in one line; empty: nowhere.
  std::string difference(const Journal& journal) const {
    if (journal.rounds() != rounds()) return fmt::format("rounds {} not {}", journal.rounds(), rounds());
    if (journal.oldest() != oldest) return fmt::format("oldest {} not {}", journal.oldest(), oldest);
    const State held = journal.snapshot();
    if (held.round != snapshot.round || held.notes != snapshot.notes || held.tally != snapshot.tally ||
        held.parameters != snapshot.parameters)
      return fmt::format("snapshot {} not {}", held.round, snapshot.round);
    Bytes parameters(snapshot.parameters.size() * sizeof(float));
    const auto reader = journal.open_snapshot();
    if (reader->round() != snapshot.round || reader->parameter_bytes() != parameters.size())
      return "snapshot reader's header";
    reader->read(0, parameters);
    if (!std::ranges::equal(parameters, std::as_bytes(std::span(snapshot.parameters))))
      return "snapshot reader";
    std::size_t replayed = 0;
    bool equal = true;
    journal.replay([&](const JournalEvent& event) {
      equal = equal && replayed < since.size() && same(event, since[replayed]);
      ++replayed;
    });
    if (!equal || replayed != since.size()) return fmt::format("replay of {} events", replayed);
    for (std::uint64_t round = 0; round < rounds() + 2; ++round) {
      const auto verdict = journal.verdict(round);
      if (verdict.has_value() != (round >= oldest && round < rounds()))
        return fmt::format("verdict of round {}, there or not", round);
      if (verdict && *verdict != verdicts[round - start]) return fmt::format("verdict of round {}", round);
    }
    for (std::uint64_t round = oldest; round <= rounds(); ++round)
      if (journal.model(round, step_of) != history[round - start])
        return fmt::format("model after {}", round);
    std::set<std::string> listed;
    for (const Journal::File& file : journal.files()) listed.insert(file.name);
    if (listed != names()) return "files";
    return "";
  }
};

inline State first_snapshot(std::size_t parameters, std::uint64_t round = 0) {
  State start{.round = round, .notes = "{}", .parameters = {}, .tally = Bytes(5)};
  for (std::size_t i = 0; i < parameters; ++i) start.parameters.push_back(static_cast<float>(i) / 3);
  return start;
}

/// A journal and its model, side by side.
struct JournalPair {
  std::filesystem::path folder;
  JournalModel model;
  std::map<std::uint32_t, CastBallot> cast;  // in the open round, since it was opened
  std::vector<std::string> reports;
  std::unique_ptr<Journal> journal;
  std::mt19937_64 random;

  JournalPair(std::filesystem::path where, const State& start, std::uint64_t seed)
      : folder(std::move(where)), model(start), random(seed) {
    Journal::create(folder, start);
    open(Journal::Mode::append);
  }
  /// One that is there already.
  JournalPair(std::filesystem::path where, JournalModel held, std::uint64_t seed)
      : folder(std::move(where)), model(std::move(held)), random(seed) {
    open(Journal::Mode::append);
  }
  void open(Journal::Mode mode) {
    cast.clear();
    journal.reset();
    journal =
        std::make_unique<Journal>(folder, mode, [this](const std::string& line) { reports.push_back(line); });
  }
  void ballot() {
    const CastBallot ballot = JournalModel::any_ballot(random);
    journal->append(model.rounds(), ballot);
    cast[ballot.worker] = ballot;
  }
  void ballots(int count) {
    for (int i = 0; i < count; ++i) ballot();
  }
  /// Closes the open round with most of its ballots.
  void verdict() {
    RoundRecord round{.round = model.rounds(), .ballots = {}, .verdict = model.any_verdict(random)};
    std::vector<std::uint32_t> counted;
    for (const auto& [worker, ballot] : cast) {
      if (random() % 4 == 0) continue;
      round.ballots.push_back(ballot);
      counted.push_back(worker);
    }
    journal->append(round.round, counted, round.verdict);
    cast.clear();
    model.append(round);
  }
  void round() {
    ballots(static_cast<int>(random() % 4));
    verdict();
  }
  void rounds(int count) {
    for (int i = 0; i < count; ++i) round();
  }
  void append(const RoundRecord& round) {
    record(*journal, round);
    cast.clear();
    model.append(round);
  }
  void member() {
    const MemberRecord member = JournalModel::any_member(random);
    journal->append(member);
    model.append(member);
  }
  void snapshot(std::uint64_t keep) {
    const State next = model.any_snapshot(random);
    journal->take_snapshot(next, keep, step_of);
    model.take_snapshot(next, keep);
  }
  std::string difference() const { return model.difference(*journal); }
};

/// The one line of what is thrown; "accepted" if nothing is.
template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

inline bool names(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos && message.find('\n') == std::string::npos;
}

}  // namespace signvote
