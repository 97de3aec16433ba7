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
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "signvote/sign_vector.h"
#include "signvote/thread_pool.h"

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
  /// Throws ConfigError where the options make no sense. `pool`, if any, must outlive the tally.
  explicit Tally(const TallyOptions& options, ThreadPool* pool = nullptr);

  /// Decides one round. ballots[m] is worker m's ballot on [begin, end), or null if it is absent.
  /// With no ballot at all every coordinate abstains.
  ///
  /// Until half of the workers present have taken part in `initial_rounds` rounds, the vote is a
  /// plain majority. From then on only those that have vote, weighted; who joins late has no say
  /// until it has taken part in as many rounds. (Should none of them be present, those who are
  /// decide by plain majority.)
  /// REQUIRES: ballots.size() == workers; each ballot has end - begin coordinates.
  void decide(std::span<const SignVector* const> ballots, SignVector& verdict);

  /// What was learnt of a worker is dropped, as if it had never voted: its place goes to another.
  void forget(std::uint32_t worker);

  const TallyOptions& options() const { return options_; }
  std::size_t size() const { return options_.end - options_.begin; }

  /// Rounds decided so far; those worker m took part in (after halving, the halved number).
  std::uint64_t rounds() const { return rounds_; }
  std::uint32_t rounds_of(std::uint32_t worker) const { return rounds_of_[worker]; }
  bool weighted() const { return weighted_; }

  /// c_{m,n} for n in [begin, end), and their sum, which is kept along. Empty and 0 for Method::mv,
  /// which learns nothing.
  std::vector<std::uint16_t> half_errors(std::uint32_t worker) const;
  std::int64_t total_half_errors(std::uint32_t worker) const;

  /// The whole state as bytes, and back. A restored tally goes on exactly as the saved one would
  /// have. The coordinates may have been cut over tallies in another way: `parts` are snapshots of the
  /// same round, disjoint, that together cover [begin, end). restore throws DataError, changing nothing,
  /// on damaged bytes, another run's, or those that do not fit together.
  std::vector<std::byte> snapshot() const;
  void restore(std::span<const std::span<const std::byte>> parts);
  void restore(std::span<const std::byte> whole) { restore({&whole, 1}); }

 private:
  /// A worker's counts of eight words of a ballot. The workers' blocks of the same words are side by
  /// side, so that a vote reads memory in one stream; what lies past end - begin is never looked at.
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
  ThreadPool* pool_;
  std::uint64_t rounds_ = 0;
  bool weighted_ = false;
  std::vector<std::uint32_t> rounds_of_;
  std::vector<std::int64_t> totals_;  // of the counts, by worker
  std::vector<CountBlock> counts_;    // worker m's block b is at b * workers + m; empty for Method::mv
};

}  // namespace signvote
