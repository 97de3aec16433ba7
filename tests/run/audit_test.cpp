// Looking into a journal from outside: what does not fit together is found.
#include "run/audit.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>

#include "base/sha256.h"
#include "engine/run_state.h"
#include "journal/journal.h"
#include "signvote/ballot_box.h"
#include "signvote/error.h"
#include "signvote/wire.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

constexpr std::size_t kSize = 4000;

/// The same signs with a mask that is not compressed, as another writer may write them: docs/wire_format.md.
std::vector<std::byte> uncompressed(const std::vector<std::byte>& message) {
  constexpr std::size_t kMaskEncoding = 28, kMaskBytes = 40, kBodyBytes = 48, kChecksum = 56;
  const auto put = [](std::vector<std::byte>& to, std::size_t offset, auto value) {
    std::memcpy(to.data() + offset, &value, sizeof value);
  };
  MessageHeader header;
  SignVector signs;
  std::string problem;
  EXPECT_TRUE(decode_header(message, header, problem) && decode(message, header, signs, problem)) << problem;
  std::uint64_t compressed = 0;
  std::memcpy(&compressed, message.data() + kMaskBytes, sizeof compressed);
  std::vector<std::byte> mask((signs.size() + 7) / 8);
  for (std::size_t i = 0; i < signs.size(); ++i)
    if (signs[i] != 0) mask[i / 8] |= std::byte{1} << i % 8;
  std::vector<std::byte> other(message.begin(), message.begin() + kHeaderBytes);
  other.insert(other.end(), mask.begin(), mask.end());
  other.insert(other.end(), message.begin() + static_cast<std::ptrdiff_t>(kHeaderBytes + compressed),
               message.end());
  put(other, kMaskEncoding, std::uint32_t{1});
  put(other, kMaskBytes, std::uint64_t{mask.size()});
  put(other, kBodyBytes, std::uint64_t{other.size() - kHeaderBytes});
  std::vector<std::byte> covered(other.begin(), other.begin() + kChecksum);
  covered.insert(covered.end(), other.begin() + kHeaderBytes, other.end());
  put(other, kChecksum, std::uint64_t{XXH3_64bits(covered.data(), covered.size())});
  return other;
}

/// A run of two workers that is made by hand: both say plus everywhere, but for a tenth where they abstain.
class AuditTest : public testing::Test {
 protected:
  AuditTest() {
    Journal::create(folder(), snapshot());
    journal_.emplace(folder(), Journal::Mode::append, [](const std::string&) {});
  }

  static TrainConfig settings() {
    TrainConfig config;
    config.method = "it";
    config.batches = "1,1";
    config.rounds = 8;
    config.step = 0.5;
    config.step_schedule = "linear";
    config.weight_decay = 0.25;
    resolve(config);
    return config;
  }

  /// What the settings say, by hand.
  static Step step_of(std::uint64_t round) {
    const float delta = 0.5F * static_cast<float>(8 - round) / 8;
    return {delta, delta / 4};
  }

  std::filesystem::path folder() const { return temporary_.path() / "journal"; }

  State snapshot() {
    RunState state;
    state.run_id = config_.run_id();
    state.progress.rounds = tally_.rounds();
    state.owners = {"a", "b"};
    state.parameters = parameters_;
    state.tally = tally_.snapshot();
    return to_state(state);
  }

  void append(const RoundRecord& record) {
    for (const CastBallot& ballot : record.ballots) journal_->append(record.round, ballot);
    journal_->append(record.round, std::vector<std::uint32_t>{0, 1}, record.verdict);
  }

  RoundRecord round() {
    SignVector signs(kSize);
    for (std::size_t i = kSize / 10; i < kSize; ++i) signs.set(i, 1);
    RoundRecord record;
    record.round = tally_.rounds();
    for (const std::uint32_t worker : {0U, 1U}) {
      CastBallot ballot{worker, 1, 1.0, {}};
      encode({MessageKind::ballot, config_.run_id(), record.round, worker, kSize}, signs, ballot.message);
      std::string problem;
      EXPECT_TRUE(box_.cast(worker, ballot.message, problem)) << problem;
      record.ballots.push_back(ballot);
    }
    const auto verdict = box_.close();
    record.verdict.assign(verdict.begin(), verdict.end());
    const Step step = step_of(record.round);
    for (float& x : parameters_) x -= step.decay * x;
    for (std::size_t i = kSize / 10; i < kSize; ++i) parameters_[i] -= step.delta;
    return record;
  }

  TemporaryFolder temporary_;
  const TrainConfig config_ = settings();
  std::vector<float> parameters_ = std::vector<float>(kSize, 1.0F);
  Tally tally_{{Method::it, 2, 0, kSize, 100, 10}};
  BallotBox box_{tally_, config_.run_id()};
  std::optional<Journal> journal_;
};

TEST_F(AuditTest, a_journal_that_holds) {
  for (int i = 0; i < 3; ++i) append(round());
  journal_->take_snapshot(snapshot(), UINT64_MAX, step_of);
  for (int i = 0; i < 2; ++i) append(round());
  const Audit audit = audit_journal(config_, folder());
  EXPECT_EQ(audit.rounds, 5U);
  EXPECT_EQ(audit.oldest, 0U);
  EXPECT_EQ(audit.decided, 2U);
  EXPECT_EQ(audit.model_sha256, sha256_hex(std::as_bytes(std::span(parameters_))));
  EXPECT_TRUE(audit.remarks.empty());
}

TEST_F(AuditTest, other_rounds_than_it_was_begun_with_lead_to_another_model) {
  for (int i = 0; i < 3; ++i) append(round());
  journal_->take_snapshot(snapshot(), UINT64_MAX, step_of);
  TrainConfig longer = config_;
  longer.rounds = 9;
  EXPECT_THROW(audit_journal(longer, folder()), DataError);
}

TEST_F(AuditTest, verdicts_that_do_not_lead_to_the_snapshot) {
  for (int i = 0; i < 3; ++i) append(round());
  parameters_[77] += 0.5F;
  journal_->take_snapshot(snapshot(), UINT64_MAX, step_of);
  EXPECT_THROW(audit_journal(config_, folder()), DataError);
}

TEST_F(AuditTest, ballots_that_do_not_give_the_verdict) {
  RoundRecord record = round();
  SignVector other(kSize);
  for (std::size_t i = kSize / 10; i < kSize; ++i) other.set(i, i == 500 ? -1 : 1);
  encode({MessageKind::verdict, config_.run_id(), 0, 0, kSize}, other, record.verdict);
  append(record);
  EXPECT_THROW(audit_journal(config_, folder()), DataError);
}

TEST_F(AuditTest, a_verdict_that_another_zstd_has_written) {
  RoundRecord record = round();
  const auto other = uncompressed(record.verdict);
  ASSERT_NE(other, record.verdict);
  record.verdict = other;
  append(record);
  EXPECT_EQ(audit_journal(config_, folder()).decided, 1U);
}

TEST_F(AuditTest, a_ballot_of_another_run) {
  RoundRecord record = round();
  SignVector signs(kSize);
  encode({MessageKind::ballot, 1, 0, 1, kSize}, signs, record.ballots[1].message);
  append(record);
  EXPECT_THROW(audit_journal(config_, folder()), DataError);
}

TEST_F(AuditTest, a_member_without_a_place) {
  journal_->append(MemberRecord{2, "c"});
  EXPECT_THROW(audit_journal(config_, folder()), DataError);
}

}  // namespace
}  // namespace signvote
