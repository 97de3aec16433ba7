// The tally turns the ballots of a round into a verdict and learns each worker's reliability.
//
// Equation 3, the vote:      U_n = sign( sum_m LLR(p_{m,n}) * Y_{m,n} ),  LLR(p) = ln((1 - p) / p)
// Equation 4, the estimate:  p_{m,n} = (rounds in which worker m was wrong at n) / (its rounds)
//
// The whole memory of equation 4 is one uint16 of half-errors c_{m,n} per worker and coordinate and
// one count t_m of the rounds a worker took part in: p = c / 2t. A ballot that contradicts the
// verdict is 2 half-errors; an abstention, or a tied verdict, is 1 (it pulls p toward 1/2 and never
// past it); an absent worker changes nothing. At t_m = 32,767 that worker's counts are halved. With
// TallyOptions::forget they are halved earlier: at t_m = 2H, and so every H = ln(2) / forget rounds.
//
// Method::shrink pulls each estimate to the worker's pooled one, because the counts of one coordinate are
// few:
//
//   p_{m,n} = (c_{m,n} / 2 + kappa * p_m) / (t_m + kappa),   p_m = (sum_n c_{m,n}) / (2 t_m N)
//
// as if the worker had taken part in kappa rounds more, with its mean error rate over all N coordinates of
// the model. 2 * kappa * p_m is rounded to 1/128 half-errors.
//
// Method::agree keeps no counts. It reads each worker's error rate, one for all coordinates, off how often
// each two workers agree, without any verdict:
//
//   E[Y_i * Y_j] = q_i * q_j,   p_i = (1 - q_i) / 2          (src/tally/agreement.h)
//
// Weights are integers (see weight.h), so a verdict depends neither on the order in which ballots
// arrive, nor on threads, nor on how the coordinates are split over tallies.
//
// A tally owns the coordinates [begin, end) of a model; many tallies can share one model. A method that
// needs sums over the whole model (Method::shrink, Method::agree) then needs to be told them after each
// round: see pooled.
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

class Agreement;

enum class Method {
  mv,      // signSGD-MV: every ballot counts the same
  it,      // IT-signSGD: every ballot counts as its worker's log-likelihood ratio
  shrink,  // the same, with error rates that are pulled to the worker's pooled one
  agree,   // one log-likelihood ratio for each worker, from the agreement of all pairs
  fixed,   // one weight for each worker, given beforehand; nothing is learnt
};

/// How many rounds of counts a method needs before its weights are better than none.
constexpr std::uint32_t default_initial_rounds(Method method) {
  return method == Method::shrink ? 3 : method == Method::agree ? 5 : 100;
}

/// How many rounds a method's prior is worth.
constexpr std::uint32_t default_prior_rounds(Method method) { return method == Method::agree ? 3 : 30; }

/// The share of what it has learnt that a method forgets each round.
constexpr double default_forget(Method method) { return method == Method::agree ? 1.0 / 256 : 0; }

/// Method::agree and Method::fixed take no more workers than this: the first compares all pairs, and both
/// add up weights of sixteen bits.
inline constexpr std::uint32_t kMostWeighed = 512;

struct TallyOptions {
  Method method = Method::it;
  std::uint32_t workers = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t initial_rounds = 100;  // of a worker, before its LLRs are used
  double clip = 10.0;                  // LLRs are kept within +-clip
  std::uint32_t prior_rounds = 30;     // kappa of Method::shrink, and the like of Method::agree
  std::vector<double> weights{};       // of Method::fixed, by worker; only their ratios matter
  std::optional<double> forget{};      // each round, of what was learnt; not given: default_forget
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
  /// until it is mature. If a later round has no mature worker, it is decided by plain majority. With
  /// Method::fixed all workers vote by their weights from the first round on.
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

  /// c_{m,n} for n in [begin, end); empty for a method that keeps no counts (mv, agree, fixed).
  [[nodiscard]] std::vector<std::uint16_t> half_errors(std::uint32_t worker) const;

  /// The sum of a worker's half-errors over [begin, end), or of every worker's. They are kept up to
  /// date by decide, so reading them costs nothing. Without counts the first is 0 and the second empty.
  [[nodiscard]] std::int64_t total_half_errors(std::uint32_t worker) const;
  [[nodiscard]] std::vector<std::int64_t> total_half_errors() const;

  /// What a method pools: numbers that are to be summed over the tallies of all ranges of a model. For
  /// Method::shrink they are every worker's half-errors and the number of coordinates; for Method::agree the
  /// agreement of each pair in the last round. Empty for a method that pools nothing, and of the same length
  /// in all tallies of a run.
  [[nodiscard]] std::vector<std::int64_t> pooled() const;

  /// Tells the sums of pooled() over all ranges, which the next round uses. To be called after every round;
  /// a tally that is not told takes its range for the whole model. A snapshot has them. Throws DataError if
  /// no other ranges could lead to these sums.
  void set_pooled(std::vector<std::int64_t> sums);

  /// Every worker's weight in the next round, in nats; empty for a method whose weights differ from
  /// coordinate to coordinate.
  [[nodiscard]] std::vector<double> worker_weights() const;

  /// A worker's weight in the next round, in nats, as the mean over [begin, end): of the weight itself and of
  /// its magnitude, which tells how much say the worker has. Both are 1 for Method::mv. Costs a pass over the
  /// worker's counts. REQUIRES: the worker has taken part in a round, if the method learns.
  struct MeanWeight {
    double weight = 0;
    double magnitude = 0;
  };
  [[nodiscard]] MeanWeight mean_weight(std::uint32_t worker) const;

  /// Of Method::agree: the share of the coordinates on which workers i and j agreed, of those that both voted
  /// on, at i * workers + j. Older rounds count less. NaN for i = j, and for two who never met. Empty for
  /// other methods.
  [[nodiscard]] std::vector<double> agreement_shares() const;

  /// The half-errors that the next round adds to each of a worker's counts, 2 * kappa * p_m; 0 except for
  /// Method::shrink. So p = (c + prior) / (2t + 2 * prior_rounds).
  [[nodiscard]] float prior(std::uint32_t worker) const;

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

  void check_workers(std::uint32_t workers) const;
  void check_forget() const;
  std::uint32_t full_rounds() const;
  double forget_share() const { return options_.forget.value_or(default_forget(options_.method)); }
  bool learns() const { return options_.method != Method::mv && options_.method != Method::fixed; }
  bool counts() const { return options_.method == Method::it || options_.method == Method::shrink; }
  void compare(std::span<const std::uint32_t> present, std::span<const std::optional<SignView>> ballots);
  /// Whether each worker has one weight for all coordinates.
  bool weighs_workers() const { return options_.method == Method::agree || options_.method == Method::fixed; }
  std::vector<std::int16_t> integer_weights(std::span<const std::uint32_t> voters) const;
  Agreement agreement() const;
  void learn_agreement(const Agreement& with_last_round);
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
  std::vector<std::int64_t> totals_;           // of the half-errors, by worker
  std::vector<std::int64_t> round_agreement_;  // of Method::agree, in this range in the last round
  std::vector<std::int64_t> agreement_;        // of Method::agree, before the last round; see agreement.h
  std::vector<std::int64_t>
      sums_;  // of pooled() over the whole model after the last round; empty: no round yet
  std::vector<CountBlock> counts_;  // worker m's block b is at b * workers + m; empty without counts
};

}  // namespace signvote
