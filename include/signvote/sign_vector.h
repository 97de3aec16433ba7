// A sign or an abstention for each of N coordinates: what a ballot and a verdict both are.
//
// Held as two bit planes of 64-bit words, coordinate i in bit i % 64 of word i / 64:
//   present   1 where there is a sign, 0 where the coordinate abstains
//   negative  1 where that sign is minus
// The form is canonical: a bit of `negative` is 0 wherever `present` is 0, and the bits past N in
// the last word are 0 in both planes. So equal vectors have equal words, and the majority vote and
// the codecs work on whole words.
//
// Threads: a SignVector is like a standard container. Any number of threads may read it at the same
// time; a thread that changes it must be the only one that uses it. The functions at the end of this
// file may be called from any number of threads that do not share what they write.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace signvote {

class SignVector {
 public:
  static constexpr std::size_t kBits = 64;

  SignVector() = default;
  /// All n coordinates abstain.
  explicit SignVector(std::size_t n) : size_(n), present_(words(n)), negative_(words(n)) {}

  static constexpr std::size_t words(std::size_t n) { return n / kBits + (n % kBits != 0); }

  std::size_t size() const { return size_; }

  /// -1, 0 (abstains) or +1. REQUIRES: i < size().
  int operator[](std::size_t i) const;

  /// REQUIRES: i < size(), sign in {-1, 0, +1}.
  void set(std::size_t i, int sign) {
    assert(i < size_);
    const std::uint64_t bit = std::uint64_t{1} << (i % kBits);
    present_[i / kBits] = sign != 0 ? present_[i / kBits] | bit : present_[i / kBits] & ~bit;
    negative_[i / kBits] = sign < 0 ? negative_[i / kBits] | bit : negative_[i / kBits] & ~bit;
  }

  /// Makes this n coordinates that all abstain, reusing the memory it has.
  void reset(std::size_t n) {
    size_ = n;
    present_.assign(words(n), 0);
    negative_.assign(words(n), 0);
  }

  /// How many coordinates do not abstain.
  [[nodiscard]] std::size_t count_present() const;

  /// The planes. Whoever writes to them must keep the canonical form.
  std::span<std::uint64_t> present() { return present_; }
  std::span<std::uint64_t> negative() { return negative_; }
  std::span<const std::uint64_t> present() const { return present_; }
  std::span<const std::uint64_t> negative() const { return negative_; }

  bool operator==(const SignVector&) const = default;

 private:
  std::size_t size_ = 0;
  std::vector<std::uint64_t> present_;
  std::vector<std::uint64_t> negative_;
};

/// Signs that somebody else holds: a whole SignVector or a part of one, to be passed by value. It is
/// valid for as long as the vector exists and is not resized.
class SignView {
 public:
  SignView() = default;
  /// Implicit, so that a SignVector can be passed wherever a view is taken.
  SignView(const SignVector& signs)
      : size_(signs.size()), present_(signs.present().data()), negative_(signs.negative().data()) {}

  std::size_t size() const { return size_; }

  /// -1, 0 (abstains) or +1. REQUIRES: i < size().
  int operator[](std::size_t i) const {
    assert(i < size_);
    const std::uint64_t bit = std::uint64_t{1} << (i % SignVector::kBits);
    if ((present_[i / SignVector::kBits] & bit) == 0) return 0;
    return (negative_[i / SignVector::kBits] & bit) != 0 ? -1 : 1;
  }

  /// The coordinates [first, first + size). REQUIRES: they lie within this view, and both ends are
  /// either where a word begins or where this view ends; otherwise words would not be canonical.
  SignView slice(std::size_t first, std::size_t size) const {
    assert(first <= size_ && size <= size_ - first);
    assert(first % SignVector::kBits == 0 || first == size_);
    assert((first + size) % SignVector::kBits == 0 || first + size == size_);
    SignView part = *this;
    part.size_ = size;
    part.present_ += first / SignVector::kBits;
    part.negative_ += first / SignVector::kBits;
    return part;
  }

  /// How many coordinates do not abstain.
  [[nodiscard]] std::size_t count_present() const;

  std::span<const std::uint64_t> present() const { return {present_, SignVector::words(size_)}; }
  std::span<const std::uint64_t> negative() const { return {negative_, SignVector::words(size_)}; }

  /// Whether they hold the same signs, wherever these are.
  friend bool operator==(SignView a, SignView b);

 private:
  std::size_t size_ = 0;
  const std::uint64_t* present_ = nullptr;
  const std::uint64_t* negative_ = nullptr;
};

inline int SignVector::operator[](std::size_t i) const { return SignView(*this)[i]; }
inline std::size_t SignVector::count_present() const { return SignView(*this).count_present(); }

/// The 16 high bits of a float32.
struct BFloat16 {
  std::uint16_t bits;
};

/// Y = sign(g); a gradient of exactly zero (of either sign) abstains. If a coordinate is NaN or
/// infinite, returns the first such coordinate and leaves `out` all abstentions: a worker with such
/// a gradient takes no part in the round. `out` is resized to the gradient.
[[nodiscard]] std::optional<std::size_t> pack(std::span<const float> gradient, SignVector& out);
[[nodiscard]] std::optional<std::size_t> pack(std::span<const double> gradient, SignVector& out);
[[nodiscard]] std::optional<std::size_t> pack(std::span<const BFloat16> gradient, SignVector& out);

/// What a worker signs that remembers its gradients, as in Lion:
///   Y = sign(vote * m + (1 - vote) * g),  and then  m <- momentum * m + (1 - momentum) * g
/// With both zero this is the gradient; with both equal it is the momentum itself (Signum).
struct Betas {
  float vote = 0;
  float momentum = 0;

  bool operator==(const Betas&) const = default;
};

/// The same with the worker's momentum m, which begins as zeros and moves on with each call. If a coordinate
/// of the gradient is NaN or infinite, the momentum stays as it is.
/// REQUIRES: momentum.size() == gradient.size(); both betas are in [0, 1).
[[nodiscard]] std::optional<std::size_t> pack(std::span<const float> gradient, std::span<float> momentum,
                                              const Betas& betas, SignVector& out);

/// How far a round moves the parameters.
struct Step {
  float delta = 0;  // along the verdict's signs
  float decay = 0;  // toward zero, as a share of each parameter: delta * L for a weight decay of L

  friend bool operator==(const Step&, const Step&) = default;
};

/// Equation 5 with decoupled weight decay: x <- x - decay * x, then x <- x - delta * U, each rounded to
/// float. A coordinate that abstains only decays; without decay it keeps its bits.
/// REQUIRES: parameters.size() == verdict.size().
void step(std::span<float> parameters, SignView verdict, Step step);
inline void step(std::span<float> parameters, SignView verdict, float delta) {
  step(parameters, verdict, Step{delta, 0});
}

}  // namespace signvote
