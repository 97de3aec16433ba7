// Who is right, from agreement alone. If worker i is wrong with probability p_i, independently of the
// others, then two workers agree as
//
//   R_ij = E[Y_i * Y_j] = q_i * q_j  with  q_i = 1 - 2 p_i,
//
// a matrix of rank one off its diagonal. So the q_i can be read off the agreement of all pairs, without
// knowing what is true, and the weight is the paper's log-likelihood ratio, ln((1 - p)/p) = 2 atanh(q). No
// worker is judged by a verdict that it has shaped itself: who is precise about its own data only does not
// agree with the others, and gets no more weight than that is worth. A liar's q is negative. Colluders, who
// agree with each other but not with the rest, fit no such matrix: the fit leaves their pairs out.
//
// Everything is integers, or sums, products and quotients of doubles: the same bits on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace signvote {

class Agreement {
 public:
  /// `forget` is what it forgets each round, in 1/kShare.
  static constexpr std::int64_t kShare = 65536;
  Agreement(std::uint32_t workers, std::int64_t forget);

  /// How many numbers a round has: for each pair i > j, at 2 * (i * (i - 1) / 2 + j), on how many coordinates
  /// both voted and the sum of Y_i * Y_j over them.
  static std::size_t numbers(std::uint32_t workers) { return std::size_t{workers} * (workers - 1); }

  /// Forgets its share of what it knows, and adds a round.
  void add(std::span<const std::int64_t> round);

  /// Drops all that is known of a worker.
  void forget(std::uint32_t worker);

  /// q_i of every worker, within +-kMost. Every pair's agreement is first pulled to the mean of all, as if
  /// for `prior_rounds` rounds the workers had been equals. The sign is the one by which the sum of all q_i
  /// is positive.
  [[nodiscard]] std::vector<double> correctness(std::uint32_t prior_rounds) const;

  /// 2 atanh(q), cut to +-clip.
  static double weight(double correctness, double clip);

  /// All that it knows, and back. REQUIRES: `state` has as many numbers as state() gives.
  std::span<const std::int64_t> state() const { return state_; }
  void set_state(std::span<const std::int64_t> state) { state_.assign(state.begin(), state.end()); }

 private:
  static constexpr double kMost = 0.999;

  std::uint32_t workers_;
  std::int64_t forget_;
  std::vector<std::int64_t> state_;  // the pairs' numbers, and last the rounds, in 1/65536
};

}  // namespace signvote
