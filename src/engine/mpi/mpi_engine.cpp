#include "engine/mpi/mpi_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <memory>
#include <numeric>
#include <tuple>

#include "engine/mpi/messages.h"
#include "engine/mpi/mpi_calls.h"
#include "signvote/error.h"

namespace signvote {
namespace {

/// One message a round from every other rank, taken as they come. Each piece is looked at before it is
/// received: what is longer than its buffer would be written past the buffer's end by Open MPI 4.1 (from some
/// 64 KB on), instead of being an error.
class Inbox {
 public:
  Inbox(std::uint32_t ranks, int tag) : tag_(tag), letters_(ranks) {}

  void expect_at_most(std::uint32_t from, std::size_t bytes) {
    letters_[from].most_bytes = bytes;
    letters_[from].bytes = std::make_unique_for_overwrite<std::byte[]>(bytes);
  }

  void begin_round() {
    left_ = 0;
    for (Letter& letter : letters_) {
      letter.size = 0;
      letter.begun = letter.bytes == nullptr;
      if (!letter.begun) ++left_;
    }
  }

  bool complete() const { return left_ == 0; }
  bool in_flight() const {
    return std::ranges::any_of(requests_, [](MPI_Request request) { return request != MPI_REQUEST_NULL; });
  }

  /// Begins to receive what is there.
  void start() {
    for (std::uint32_t r = 0; r < letters_.size(); ++r)
      while (!letters_[r].begun && start_piece(r)) continue;
  }

  /// take(rank, bytes) for what has come. Returns whether anything has.
  bool poll(const auto& take) {
    start();
    if (requests_.empty()) return false;
    done_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int count = 0;
    const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(),
                                  statuses_.data());
    if (code != MPI_ERR_IN_STATUS) mpi::check(code, "to receive");
    if (count == MPI_UNDEFINED || count == 0) return false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const std::uint32_t from = senders_[static_cast<std::size_t>(done_[i])];
      if (code == MPI_ERR_IN_STATUS)
        mpi::check(statuses_[i].MPI_ERROR, fmt::format("to receive from rank {}", from));
      Letter& letter = letters_[from];
      if (--letter.on_their_way > 0 || !letter.begun) continue;
      --left_;
      take(from, std::span<const std::byte>(letter.bytes.get(), letter.size));
    }
    if (!in_flight()) {
      requests_.clear();
      senders_.clear();
    }
    return true;
  }

 private:
  struct Letter {
    std::size_t most_bytes = 0;
    std::unique_ptr<std::byte[]> bytes;  // none: of the own rank
    std::size_t size = 0;                // of all pieces seen so far
    bool begun = true;                   // to receive the last piece
    std::size_t on_their_way = 0;        // pieces
  };

  /// False: there is none.
  bool start_piece(std::uint32_t from) {
    Letter& letter = letters_[from];
    const std::string doing = fmt::format("to receive from rank {}", from);
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    mpi::check(MPI_Improbe(static_cast<int>(from), tag_, MPI_COMM_WORLD, &found, &message, &status), doing);
    if (found == 0) return false;
    int bytes = 0;
    mpi::check(MPI_Get_count(&status, MPI_BYTE, &bytes), doing);
    const auto size = static_cast<std::size_t>(bytes);
    if (size > mpi::kPieceBytes || size > letter.most_bytes - letter.size)
      throw EngineError(fmt::format("rank {} sends {} bytes after {} where {} are the most that makes sense",
                                    from, size, letter.size, letter.most_bytes));
    mpi::check(MPI_Imrecv(letter.bytes.get() + letter.size, bytes, MPI_BYTE, &message,
                          &requests_.emplace_back(MPI_REQUEST_NULL)),
               doing);
    senders_.push_back(from);
    letter.size += size;
    letter.begun = size < mpi::kPieceBytes;
    ++letter.on_their_way;
    return true;
  }

  int tag_;
  std::vector<Letter> letters_;  // by rank
  std::size_t left_ = 0;         // letters not taken yet
  std::vector<MPI_Request> requests_;
  std::vector<std::uint32_t> senders_;  // of those
  std::vector<int> done_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace

std::vector<std::vector<std::uint32_t>> host_workers(std::span<const std::uint32_t> batches,
                                                     std::uint32_t ranks) {
  assert(ranks >= 1 && ranks <= batches.size());
  std::vector<std::uint32_t> order(batches.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::greater{}, [&](std::uint32_t worker) { return batches[worker]; });
  std::vector<std::vector<std::uint32_t>> hosted(ranks);
  std::vector<std::uint64_t> samples(ranks);
  for (const std::uint32_t worker : order) {
    std::uint32_t best = 0;
    // Equal loads: to whom has fewer workers, so that nobody is left without.
    for (std::uint32_t r = 1; r < ranks; ++r)
      if (std::tuple(samples[r], hosted[r].size()) < std::tuple(samples[best], hosted[best].size())) best = r;
    samples[best] += batches[worker];
    hosted[best].push_back(worker);
  }
  for (auto& workers : hosted) std::ranges::sort(workers);
  return hosted;
}

class MpiEngine::Impl {
 public:
  Impl(const MpiSession& session, MpiEngineOptions options, ParallelFor parallel_for)
      : options_(std::move(options)),
        rank_(session.rank()),
        ranks_(session.ranks()),
        shards_(shards(options_.tally.end, session.ranks())),
        tally_(tally_options(options_.tally, shards_[rank_]), std::move(parallel_for)),
        ballot_inbox_(ranks_, mpi::kBallotTag),
        verdict_inbox_(ranks_, mpi::kVerdictTag),
        ballot_messages_(ranks_),
        ballots_(options_.tally.workers),
        votes_(options_.tally.workers),
        shard_ballots_(options_.tally.workers),
        losses_(options_.tally.workers),
        verdict_(options_.tally.end),
        sent_(ranks_) {
    assert(options_.tally.begin == 0 && options_.hosted.size() == ranks_);
    totals_ = tally_.total_half_errors();
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      if (r == rank_) continue;
      ballot_inbox_.expect_at_most(r, mpi::most_ballot_bytes(shards_[rank_], options_.hosted[r].size()));
      verdict_inbox_.expect_at_most(r, mpi::most_verdict_bytes(shards_[r], totals_.size()));
    }
  }

  const std::vector<std::uint32_t>& hosted() const { return options_.hosted[rank_]; }
  bool leads() const { return rank_ == 0; }
  Tally& tally() { return tally_; }
  const std::vector<std::int64_t>& totals() const { return totals_; }
  Traffic traffic() const { return std::accumulate(sent_.begin(), sent_.end(), Traffic{}, plus); }

  /// Whether MPI may still write to, or read from, the memory of this object: after a round that failed.
  bool in_flight() const {
    return ballot_inbox_.in_flight() || verdict_inbox_.in_flight() ||
           std::ranges::any_of(sends_, [](MPI_Request request) { return request != MPI_REQUEST_NULL; });
  }

  void send_ballot(std::uint32_t worker, const SignVector* ballot, double loss) {
    assert(std::ranges::binary_search(hosted(), worker));
    assert(ballot == nullptr || ballot->size() == options_.tally.end);
    ballots_[worker] = ballot;
    losses_[worker] = loss;
  }

  Outcome receive_verdict(bool stop) {
    round_ = {options_.run_id, tally_.rounds()};
    stop_ = stop;
    ballot_inbox_.begin_round();
    verdict_inbox_.begin_round();
    send_ballots(stop);
    take_all(ballot_inbox_, [this](std::uint32_t from, auto bytes) { take_ballots(from, bytes); });

    tally_.decide(votes_, slice_);
    send_verdict();
    take_all(verdict_inbox_, [this](std::uint32_t from, auto bytes) { take_verdict(from, bytes); });
    finish_sends();

    Outcome outcome{&verdict_, 0, losses_, stop_};
    for (const auto& vote : votes_) outcome.present += vote ? 1 : 0;
    std::ranges::fill(ballots_, nullptr);
    std::ranges::fill(votes_, std::nullopt);
    std::ranges::fill(losses_, 0.0);
    return outcome;
  }

  /// An allreduce ends in no rank before all have begun it. This one sums up what a shard alone does not
  /// know, for a tally may have been restored since the last round.
  void wait_for_all() {
    std::vector<std::int64_t> mine = tally_.total_half_errors();
    mine.push_back(0);  // never empty
    std::vector<std::int64_t> sum(mine.size());
    MPI_Request request = MPI_REQUEST_NULL;
    const std::string doing = "to wait for all ranks";
    mpi::check(MPI_Iallreduce(mine.data(), sum.data(), static_cast<int>(mine.size()), MPI_INT64_T, MPI_SUM,
                              MPI_COMM_WORLD, &request),
               doing);
    mpi::wait(request, doing, [this](const mpi::BackOff& back_off) { look_for_stop(back_off); });
    std::copy_n(sum.begin(), totals_.size(), totals_.begin());
  }

 private:
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

  static Traffic plus(Traffic a, const Traffic& b) { return a += b; }

  /// While one message is on its way the next is encoded; nothing else comes between them, for the line must
  /// not run dry. Each rank begins with its neighbour, so that not all send to the same one at once.
  void send_ballots(bool stop) {
    mpi::WorkersTrailer trailer;
    trailer.stop = stop;
    std::vector<const SignVector*> present;
    for (const std::uint32_t worker : hosted()) {
      const SignVector* ballot = ballots_[worker];
      trailer.present.push_back(ballot != nullptr ? 1 : 0);
      trailer.losses.push_back(losses_[worker]);
      if (ballot != nullptr) present.push_back(ballot);
    }
    sent_[rank_].ballots += present.size();
    for (std::uint32_t i = 1; i < ranks_; ++i) {
      const std::uint32_t to = (rank_ + i) % ranks_;
      std::vector<std::byte>& message = ballot_messages_[to];
      mpi::encode_ballots(round_, hosted()[0], shards_[to], present, trailer, joined_, message);
      send(to, mpi::kBallotTag, message);
      sent_[rank_].ballot_bytes += message.size();
    }
    for (const std::uint32_t worker : hosted()) {
      if (ballots_[worker] == nullptr) continue;
      votes_[worker] = mpi::slice(*ballots_[worker], shards_[rank_]);
    }
  }

  void take_ballots(std::uint32_t from, std::span<const std::byte> bytes) {
    const std::vector<std::uint32_t>& workers = options_.hosted[from];
    std::vector<SignVector*> slices;
    for (const std::uint32_t worker : workers) slices.push_back(&shard_ballots_[worker]);
    mpi::WorkersTrailer trailer;
    std::string problem;
    if (!mpi::decode_ballots(bytes, round_, workers[0], shards_[rank_], slices, trailer, joined_, problem))
      refuse(from, "ballots", problem);
    stop_ = stop_ || trailer.stop;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (trailer.present[i] != 0) votes_[workers[i]] = *slices[i];
      losses_[workers[i]] = trailer.losses[i];
    }
  }

  void send_verdict() {
    mpi::ShardTrailer trailer{sent_[rank_], tally_.total_half_errors()};
    if (leads()) ++trailer.traffic.verdicts;
    if (ranks_ > 1) mpi::encode_verdict(round_, slice_, trailer, verdict_message_);
    for (std::uint32_t i = 1; i < ranks_; ++i) {
      const std::uint32_t to = (rank_ + i) % ranks_;
      send(to, mpi::kVerdictTag, verdict_message_);
    }
    sent_[rank_] = trailer.traffic;
    totals_ = trailer.totals;
    mpi::place_slice(slice_, shards_[rank_], verdict_);
  }

  void take_verdict(std::uint32_t from, std::span<const std::byte> bytes) {
    mpi::ShardTrailer trailer;
    trailer.totals.resize(totals_.size());
    std::string problem;
    if (!mpi::decode_verdict(bytes, round_, shards_[from], slice_, trailer, problem))
      refuse(from, "part of the verdict", problem);
    mpi::place_slice(slice_, shards_[from], verdict_);
    sent_[from] = trailer.traffic;
    for (std::size_t m = 0; m < totals_.size(); ++m) totals_[m] += trailer.totals[m];
  }

  [[noreturn]] void refuse(std::uint32_t from, const char* what, const std::string& problem) const {
    throw EngineError(
        fmt::format("round {}: the {} of rank {} cannot be used: {}", round_.round + 1, what, from, problem));
  }

  void send(std::uint32_t to, int tag, std::span<const std::byte> message) {
    for (bool last = false; !last;) {
      const auto piece = message.first(std::min(message.size(), mpi::kPieceBytes));
      mpi::check(MPI_Isend(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, static_cast<int>(to), tag,
                           MPI_COMM_WORLD, &sends_.emplace_back(MPI_REQUEST_NULL)),
                 fmt::format("to send to rank {}", to));
      message = message.subspan(piece.size());
      last = piece.size() < mpi::kPieceBytes;
    }
  }

  void take_all(Inbox& inbox, const auto& take) {
    mpi::BackOff back_off;
    while (!inbox.complete()) {
      verdict_inbox_.start();  // of those who have all ballots already
      if (inbox.poll(take)) {
        back_off.news();
      } else {
        look_for_stop(back_off);
        back_off.pause();
      }
    }
  }

  void finish_sends() {
    for (MPI_Request& request : sends_)
      mpi::wait(request, "to send", [this](const mpi::BackOff& back_off) { look_for_stop(back_off); });
    sends_.clear();
  }

  void look_for_stop(const mpi::BackOff& back_off) {
    if (told_ || back_off.waited() < options_.patience || !options_.stop_requested ||
        !options_.stop_requested())
      return;
    told_ = true;
    if (options_.stop_while_waiting) options_.stop_while_waiting();
  }

  MpiEngineOptions options_;
  std::uint32_t rank_;
  std::uint32_t ranks_;
  std::vector<mpi::Shard> shards_;  // by rank
  Tally tally_;

  Inbox ballot_inbox_;
  Inbox verdict_inbox_;
  std::vector<std::vector<std::byte>> ballot_messages_;  // by rank they go to
  std::vector<std::byte> verdict_message_;
  std::vector<MPI_Request> sends_;  // of all pieces

  // This round's.
  mpi::RoundId round_;
  bool stop_ = false;
  std::vector<const SignVector*> ballots_;      // whole ones, of the workers hosted here
  std::vector<std::optional<SignView>> votes_;  // on this shard, of all workers
  std::vector<SignVector> shard_ballots_;       // what other ranks' workers cast
  std::vector<double> losses_;
  SignVector joined_;
  SignVector slice_;

  SignVector verdict_;
  std::vector<std::int64_t> totals_;
  std::vector<Traffic> sent_;  // by rank, as each has last said
  bool told_ = false;
};

MpiEngine::MpiEngine(const MpiSession& session, MpiEngineOptions options, ParallelFor parallel_for)
    : impl_(std::make_unique<Impl>(session, std::move(options), std::move(parallel_for))) {}

MpiEngine::~MpiEngine() {
  // Memory that MPI still uses cannot be given back; whoever gets here is about to end.
  if (impl_->in_flight()) static_cast<void>(impl_.release());
}

std::span<const std::uint32_t> MpiEngine::hosted() const { return impl_->hosted(); }
bool MpiEngine::leads() const { return impl_->leads(); }
void MpiEngine::send_ballot(std::uint32_t worker, const SignVector* ballot, double loss) {
  impl_->send_ballot(worker, ballot, loss);
}
Outcome MpiEngine::receive_verdict(bool stop) { return impl_->receive_verdict(stop); }
Tally& MpiEngine::tally() { return impl_->tally(); }
std::vector<std::int64_t> MpiEngine::total_half_errors() const { return impl_->totals(); }
Traffic MpiEngine::traffic() const { return impl_->traffic(); }
void MpiEngine::wait_for_all() { impl_->wait_for_all(); }

}  // namespace signvote
