// The tally turns the ballots of a round into a verdict and learns each worker's reliability.
//
// Equation 3, the vote:      U_n = sign( sum_m LLR(p_{m,n}) * Y_{m,n} ),  LLR(p) = ln((1 - p) / p)
// Equation 4, the estimate:  p_{m,n} = (rounds in which worker m was wrong at n) / (its rounds)
//
// The whole memory of equation 4 is one uint16 of half-errors c_{m,n} per worker and coordinate and
// one count t_m of the rounds a worker took part in: p = c / 2t. A ballot that contradicts the
// verdict is 2 half-errors; an abstention, or a tied verdict, is 1 (it pulls p toward 1/2 and never
// past it); an absent worker changes nothing. At t_m = 32,767 that worker's counts are halved.
//
// Weights are integers (see weight.h), so a verdict depends neither on the order in which ballots
// arrive, nor on threads, nor on how the coordinates are split over tallies.
//
// A tally owns the coordinates [begin, end) of a model; many tallies can share one model.
//
// Threads: one thread at a time may call a member that is not const, and no other thread may use the
// tally meanwhile. Const members may be called from any number of threads at the same time. decide
// itself spreads its work with the ParallelFor that the tally was made with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "signvote/parallel.h"
#include "signvote/sign_vector.h"

namespace signvote {

enum class Method {
  mv,  // signSGD-MV: every ballot counts the same
  it,  // IT-signSGD: every ballot counts as its worker's log-likelihood ratio
};

struct TallyOptions {
  Method method = Method::it;
  std::uint32_t workers = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t initial_rounds = 100;  // a worker's rounds before its LLRs are used
  double clip = 10.0;                  // LLRs are kept within +-clip
};

class Tally {
 public:
  /// Throws ConfigError if the options make no sense. What `parallel_for` uses must outlive the tally.
  explicit Tally(const TallyOptions& options, ParallelFor parallel_for = {});

  /// Decides one round. ballots[m] is worker m's ballot on [begin, end), or nullopt if the worker is
  /// absent. If all are absent, every coordinate of the verdict abstains.
  ///
  /// A worker is mature once it has taken part in `initial_rounds` rounds. The vote is a plain majority
  /// of all ballots until a round in which at least half of the workers present are mature. From that
  /// round on only mature workers vote, weighted; a worker that joins late is counted but has no say
  /// until it is mature. If a later round has no mature worker, it is decided by plain majority.
  /// REQUIRES: ballots.size() == workers; each ballot has end - begin coordinates; `verdict` is none of
  /// the ballots.
  void decide(std::span<const std::optional<SignView>> ballots, SignVector& verdict);

  /// Drops what was learnt of a worker, as if it had never voted, so that its place can go to another.
  void forget(std::uint32_t worker);

  /// Changes the number of workers: those past it are dropped, new ones have never voted. Throws
  /// ConfigError if there would be none.
  void set_workers(std::uint32_t workers);

  const TallyOptions& options() const { return options_; }
  std::size_t size() const { return options_.end - options_.begin; }

  /// Rounds decided so far, and the rounds in which a worker took part (halved when its counts are).
  std::uint64_t rounds() const { return rounds_; }
  std::uint32_t rounds_of(std::uint32_t worker) const { return rounds_of_[worker]; }
  /// Whether mature workers alone vote by now; see decide.
  bool weighted() const { return weighted_; }

  /// c_{m,n} for n in [begin, end); empty for Method::mv, which learns nothing.
  [[nodiscard]] std::vector<std::uint16_t> half_errors(std::uint32_t worker) const;

  /// The sum of a worker's half-errors over [begin, end), or of every worker's. They are kept up to
  /// date by decide, so reading them costs nothing. For Method::mv the first is 0 and the second empty.
  [[nodiscard]] std::int64_t total_half_errors(std::uint32_t worker) const;
  [[nodiscard]] std::vector<std::int64_t> total_half_errors() const;

  /// The whole state as bytes, and back. A restored tally goes on exactly as the saved one would have.
  /// The saved tallies may have divided the coordinates in another way: `parts` are snapshots of one
  /// round that do not overlap and together cover [begin, end). If bytes are damaged, come from another
  /// run or do not fit together, restore throws DataError and changes nothing.
  [[nodiscard]] std::vector<std::byte> snapshot() const;
  void restore(std::span<const std::span<const std::byte>> parts);
  void restore(std::span<const std::byte> whole) { restore({&whole, 1}); }

 private:
  /// A worker's counts for eight words of a ballot. All workers' blocks for the same words are side by
  /// side, so that a vote reads memory in one stream. Counts past end - begin are never looked at.
  static constexpr std::size_t kBlockWords = 8;
  struct alignas(128) CountBlock {
    std::array<std::uint16_t, kBlockWords * SignVector::kBits> half_errors{};
  };

  void for_ranges(const auto& body) const;
  void halve_if_full(std::uint32_t worker);
  void sum_up(std::uint32_t worker);
  void set_half_errors(std::uint32_t worker, std::size_t first, std::span<const std::byte> counts);
  std::size_t words() const { return SignVector::words(size()); }
  std::size_t blocks() const { return (words() + kBlockWords - 1) / kBlockWords; }

  TallyOptions options_;
  ParallelFor parallel_for_;
  std::uint64_t rounds_ = 0;
  bool weighted_ = false;
  std::vector<std::uint32_t> rounds_of_;
  std::vector<std::int64_t> totals_;  // of the half-errors, by worker
  std::vector<CountBlock> counts_;    // worker m's block b is at b * workers + m; empty for Method::mv
};

}  // namespace signvote
