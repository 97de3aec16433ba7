// A sign or an abstention for each of N coordinates: what a ballot and a verdict both are.
//
// Held as two bit planes of 64-bit words, coordinate i in bit i % 64 of word i / 64:
//   present   1 where there is a sign, 0 where the coordinate abstains
//   negative  1 where that sign is minus
// The form is canonical: a bit of `negative` is 0 wherever `present` is 0, and the bits past N in
// the last word are 0 in both planes. So equal vectors have equal words, and the majority vote and
// the codecs work on whole words.
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
  int operator[](std::size_t i) const {
    assert(i < size_);
    const std::uint64_t bit = std::uint64_t{1} << (i % kBits);
    if ((present_[i / kBits] & bit) == 0) return 0;
    return (negative_[i / kBits] & bit) != 0 ? -1 : 1;
  }

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
  std::size_t count_present() const;

  /// The planes. Whoever writes them keeps the canonical form.
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

/// The 16 high bits of a float32.
struct BFloat16 {
  std::uint16_t bits;
};

/// Y = sign(g); a gradient of exactly zero (of either sign) abstains. If a coordinate is NaN or
/// infinite, returns the first such coordinate and leaves `out` all abstentions: a worker with such
/// a gradient takes no part in the round. `out` is resized to the gradient.
std::optional<std::size_t> pack(std::span<const float> gradient, SignVector& out);
std::optional<std::size_t> pack(std::span<const double> gradient, SignVector& out);
std::optional<std::size_t> pack(std::span<const BFloat16> gradient, SignVector& out);

/// Equation 5, x <- x - delta * U; a coordinate that abstains keeps its bits.
/// REQUIRES: parameters.size() == verdict.size().
void step(std::span<float> parameters, const SignVector& verdict, float delta);

}  // namespace signvote
