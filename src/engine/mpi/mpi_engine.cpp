#include "engine/mpi/mpi_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/checkpoint.h"
#include "engine/mpi/inbox.h"
#include "engine/mpi/messages.h"
#include "engine/mpi/mpi_calls.h"
#include "signvote/error.h"
#include "signvote/wire.h"

namespace signvote {
namespace {

/// The memory that MPI reads and writes during a round.
struct Mail {
  explicit Mail(std::uint32_t ranks)
      : ballot_inbox(ranks, mpi::kBallotTag), verdict_inbox(ranks, mpi::kVerdictTag), ballots(ranks) {}

  /// Whether MPI may still use it, which happens after a round that failed.
  bool in_flight() const {
    return ballot_inbox.in_flight() || verdict_inbox.in_flight() ||
           std::ranges::any_of(sends, [](MPI_Request request) { return request != MPI_REQUEST_NULL; });
  }

  mpi::Inbox ballot_inbox;
  mpi::Inbox verdict_inbox;
  std::vector<std::vector<std::byte>> ballots;  // by the rank they go to
  std::vector<std::byte> verdict;
  std::vector<MPI_Request> sends;  // one for each piece
};

class MpiEngine : public Engine {
 public:
  MpiEngine(const MpiSession& session, MpiEngineOptions options, ParallelFor parallel_for)
      : options_(std::move(options)),
        session_(session),
        rank_(session.rank()),
        ranks_(session.size()),
        shards_(shards(options_.tally.end, session.size())),
        tally_(tally_options(options_.tally, shards_[rank_]), std::move(parallel_for)),
        mail_(std::make_unique<Mail>(ranks_)),
        encoded_(options_.tally.workers),
        whole_bytes_(options_.tally.workers),
        received_(ranks_),
        votes_(options_.tally.workers),
        losses_(options_.tally.workers),
        pooled_(ranks_),
        verdict_(options_.tally.end),
        sent_(ranks_) {
    assert(options_.tally.begin == 0 && options_.hosted.size() == ranks_);
    for (const std::uint32_t worker : mine()) encoded_[worker].resize(ranks_);
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      if (r == rank_) continue;
      received_[r].resize(options_.hosted[r].size());
      mail_->ballot_inbox.expect_at_most(r, mpi::most_ballot_bytes(shards_[rank_], received_[r].size()));
      mail_->verdict_inbox.expect_at_most(r, mpi::most_verdict_bytes(shards_[r], tally_.pooled().size()));
    }
  }

  ~MpiEngine() override {
    // Memory that MPI still uses cannot be freed. This happens only after an error that ends the program.
    if (mail_->in_flight()) static_cast<void>(mail_.release());
  }
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  std::span<const std::uint32_t> hosted() const override { return mine(); }
  bool leads() const override { return rank_ == 0; }
  const Tally& tally() const override { return tally_; }
  Traffic traffic() const override { return std::accumulate(sent_.begin(), sent_.end(), Traffic{}, plus); }
  void finish() override {}

  void open(const RunState&, const std::function<void(const RunState&)>& saved,
            const std::function<void(const Outcome&)>&) override {
    const auto state = load_checkpoint(options_.folder, mine());
    if (!state) return;
    saved(*state);
    restore_tally(*state, options_.folder, tally_);
    saved_shards_ = state->shards;
    saved_round_ = state->progress.rounds;
  }

  void start() override {
    if (leads()) remove_parts(options_.folder, saved_shards_, saved_round_);
  }

  /// Shards and memories are written before the checkpoint that they belong to. So whenever a process dies,
  /// those of one round are all there.
  void save(RunState state) override {
    on_all_ranks(session_, [&] {
      save_memories(state, options_.folder);
      if (!leads()) save_shard(tally_, options_.folder);
    });
    if (leads()) save_checkpoint(std::move(state), tally_, options_.folder);
  }

  void send_ballot(std::uint32_t worker, const SignVector* ballot, const BatchLoss& loss) override {
    assert(std::ranges::binary_search(mine(), worker));
    losses_[worker] = loss;
    if (ballot == nullptr) return;
    assert(ballot->size() == options_.tally.end);
    for (std::uint32_t r = 0; r < ranks_; ++r)
      if (r != rank_) mpi::encode_slice(mpi::slice(*ballot, shards_[r]), encoded_[worker][r]);
    votes_[worker] = mpi::slice(*ballot, shards_[rank_]);
    whole_bytes_[worker] = message_bytes(*ballot);
  }

  void send_digest(std::uint64_t digest) override { digest_ = digest; }

  Outcome receive_verdict(bool stop) override {
    round_ = tally_.rounds();
    stop_ = stop;
    mail_->ballot_inbox.begin_round();
    mail_->verdict_inbox.begin_round();
    send_ballots({stop, digest_});
    take_all(mail_->ballot_inbox, [this](std::uint32_t from, auto bytes) { take_ballots(from, bytes); });

    digest_ = 0;
    Outcome outcome;
    outcome.stop = stop_;
    outcome.losses = std::exchange(losses_, std::vector<BatchLoss>(losses_.size()));
    outcome.present =
        static_cast<std::uint32_t>(std::ranges::count_if(votes_, &std::optional<SignView>::has_value));
    if (outcome.present > 0) {
      tally_.decide(votes_, slice_);
      std::ranges::fill(votes_, std::nullopt);
      send_verdict();
      take_all(mail_->verdict_inbox, [this](std::uint32_t from, auto bytes) { take_verdict(from, bytes); });
      set_pooled();
      if (leads()) sent_[rank_] += {0, 0, 1, message_bytes(verdict_), 0};
      outcome.verdict = &verdict_;
    }
    finish_sends();
    return outcome;
  }

  std::vector<std::int64_t> total_half_errors() const override {
    return sum_over_ranks(tally_.total_half_errors());
  }

 private:
  const std::vector<std::uint32_t>& mine() const { return options_.hosted[rank_]; }

  /// To be called by all ranks.
  std::vector<std::int64_t> sum_over_ranks(const std::vector<std::int64_t>& own) const {
    std::vector<std::int64_t> sum(own.size());
    MPI_Request request = MPI_REQUEST_NULL;
    const std::string doing = "to sum up the tallies of all ranks";
    mpi::check(MPI_Iallreduce(own.data(), sum.data(), static_cast<int>(own.size()), MPI_INT64_T, MPI_SUM,
                              MPI_COMM_WORLD, &request),
               doing);
    mpi::wait(request, doing, [this](const mpi::BackOff& back_off) { look_for_stop(back_off); });
    return sum;
  }

  static std::vector<mpi::Shard> shards(std::uint64_t size, std::uint32_t ranks) {
    std::vector<mpi::Shard> all;
    for (std::uint32_t r = 0; r < ranks; ++r) all.push_back(mpi::shard_of(size, ranks, r));
    return all;
  }

  static TallyOptions tally_options(TallyOptions options, const mpi::Shard& shard) {
    options.begin = shard.begin;
    options.end = shard.end;
    return options;
  }

  /// The bytes of a message with all these signs, as the other engines send it.
  static std::size_t message_bytes(SignView signs) {
    std::vector<std::byte> body;
    return kHeaderBytes + write_body(signs, body, 0).bytes;
  }

  static Traffic plus(Traffic a, const Traffic& b) { return a += b; }

  mpi::MessageId id_of(std::uint32_t sender) const { return {options_.run_id, round_, sender}; }

  /// The other ranks in the order in which this one sends to them. Each rank begins with its neighbour, so
  /// that they do not all send to the same rank at once.
  void for_others(const auto& body) const {
    for (std::uint32_t i = 1; i < ranks_; ++i) body((rank_ + i) % ranks_);
  }

  void send_ballots(const mpi::RankWord& word) {
    std::vector<mpi::SentBallot> ballots(mine().size());
    for_others([&](std::uint32_t to) {
      for (std::size_t i = 0; i < ballots.size(); ++i) {
        const std::uint32_t worker = mine()[i];
        ballots[i] = {losses_[worker], votes_[worker] ? &encoded_[worker][to] : nullptr};
      }
      mpi::encode_ballots(id_of(rank_), word, ballots, mail_->ballots[to]);
      send(to, mpi::kBallotTag, mail_->ballots[to]);
      sent_[rank_].rank_bytes += mail_->ballots[to].size();
    });
    for (const std::uint32_t worker : mine())
      if (votes_[worker]) sent_[rank_] += {1, whole_bytes_[worker], 0, 0, 0};
  }

  void take_ballots(std::uint32_t from, std::span<const std::byte> bytes) {
    mpi::RankWord word;
    std::string problem;
    if (!mpi::decode_ballots(bytes, id_of(from), shards_[rank_], word, received_[from], problem))
      refuse(from, "ballots", problem);
    if (word.digest != digest_)
      refuse(from, "ballots",
             fmt::format("its model is not that of rank {}; go on from the last save, and check both "
                         "machines' memory and libraries if it happens again",
                         rank_));
    stop_ = stop_ || word.stop;
    for (std::size_t i = 0; i < received_[from].size(); ++i) {
      const mpi::ReceivedBallot& ballot = received_[from][i];
      const std::uint32_t worker = options_.hosted[from][i];
      losses_[worker] = ballot.loss;
      if (ballot.present) votes_[worker] = ballot.signs;
    }
  }

  void send_verdict() {
    pooled_[rank_] = tally_.pooled();
    if (ranks_ > 1) {
      mpi::encode_slice(slice_, encoded_slice_);
      mpi::encode_verdict(id_of(rank_), encoded_slice_, pooled_[rank_], ranks_ - 1, sent_[rank_],
                          mail_->verdict);
    }
    for_others([&](std::uint32_t to) { send(to, mpi::kVerdictTag, mail_->verdict); });
    const SignWords shard(verdict_, shards_[rank_].begin, slice_.size());
    std::ranges::copy(slice_.present(), shard.present.begin());
    std::ranges::copy(slice_.negative(), shard.negative.begin());
  }

  void take_verdict(std::uint32_t from, std::span<const std::byte> bytes) {
    std::string problem;
    pooled_[from].resize(pooled_[rank_].size());
    if (!mpi::decode_verdict(bytes, id_of(from), shards_[from], verdict_, pooled_[from], sent_[from],
                             problem))
      refuse(from, "part of the verdict", problem);
  }

  void set_pooled() {
    std::vector<std::int64_t> sums(pooled_[rank_].size());
    for (const std::vector<std::int64_t>& of_rank : pooled_)
      for (std::size_t i = 0; i < sums.size(); ++i)  // without a sign, because then nothing overflows
        sums[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sums[i]) +
                                            static_cast<std::uint64_t>(of_rank[i]));
    tally_.set_pooled(std::move(sums));
  }

  [[noreturn]] void refuse(std::uint32_t from, const char* what, const std::string& problem) const {
    throw EngineError(
        fmt::format("round {}: the {} of rank {} cannot be used: {}", round_ + 1, what, from, problem));
  }

  void send(std::uint32_t to, int tag, std::span<const std::byte> message) {
    for (bool last = false; !last;) {
      const auto piece = message.first(std::min(message.size(), mpi::kPieceBytes));
      mpi::check(MPI_Isend(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, static_cast<int>(to), tag,
                           MPI_COMM_WORLD, &mail_->sends.emplace_back(MPI_REQUEST_NULL)),
                 fmt::format("to send to rank {}", to));
      message = message.subspan(piece.size());
      last = piece.size() < mpi::kPieceBytes;
    }
  }

  void take_all(mpi::Inbox& inbox, const mpi::Inbox::Take& take) {
    mpi::BackOff back_off;
    while (!inbox.complete()) {
      mail_->verdict_inbox.start();  // because some ranks may have all ballots already and send their slice
      if (inbox.poll(take)) {
        back_off.news();
      } else {
        look_for_stop(back_off);
        back_off.pause();
      }
    }
  }

  void finish_sends() {
    for (MPI_Request& request : mail_->sends)
      mpi::wait(request, "to send", [this](const mpi::BackOff& back_off) { look_for_stop(back_off); });
    mail_->sends.clear();
  }

  void look_for_stop(const mpi::BackOff& back_off) const {
    if (told_ || back_off.waited() < options_.patience || !options_.stop_requested ||
        !options_.stop_requested())
      return;
    told_ = true;
    if (options_.stop_while_waiting) options_.stop_while_waiting();
  }

  MpiEngineOptions options_;
  const MpiSession& session_;
  std::uint32_t rank_;
  std::uint32_t ranks_;
  std::vector<mpi::Shard> shards_;         // by rank
  std::vector<std::string> saved_shards_;  // the files that the opened checkpoint names
  std::uint64_t saved_round_ = 0;          // that of the opened checkpoint
  Tally tally_;

  std::unique_ptr<Mail> mail_;

  // The state of the current round.
  std::uint64_t round_ = 0;
  bool stop_ = false;
  std::uint64_t digest_ = 0;                             // of this rank's parameters; 0 in rounds without one
  std::vector<std::vector<mpi::EncodedSlice>> encoded_;  // of hosted workers, by worker and rank
  std::vector<std::uint64_t> whole_bytes_;               // of their ballots, by worker
  std::vector<std::vector<mpi::ReceivedBallot>> received_;  // by rank, in the order it hosts its workers
  std::vector<std::optional<SignView>> votes_;              // of all workers, on this shard
  std::vector<BatchLoss> losses_;
  SignVector slice_;  // the verdict on this shard
  mpi::EncodedSlice encoded_slice_;

  std::vector<std::vector<std::int64_t>> pooled_;  // by rank, after the round
  SignVector verdict_;
  std::vector<Traffic> sent_;  // by rank, as each last reported it
  mutable bool told_ = false;  // stop_while_waiting was called
};

}  // namespace

std::unique_ptr<Engine> make_mpi_engine(const MpiSession& session, MpiEngineOptions options,
                                        ParallelFor parallel_for) {
  return std::make_unique<MpiEngine>(session, std::move(options), std::move(parallel_for));
}

}  // namespace signvote
