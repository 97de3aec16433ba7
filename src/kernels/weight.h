// The integer weight of a worker at a coordinate: its log-likelihood ratio, in units of ln(2) / 128.
//
//   LLR = ln((1 - p) / p)  with  p = c / 2t,  so  LLR = ln(2t - c) - ln(c)
//   weight(c, t) = clamp(log2 of 2t - c, less log2 of c, in 1/128; -clip, +clip)
//
// A prior adds to c and to 2t: LLR = ln(right) - ln(wrong) with wrong = c + prior, right = 2t - wrong. Then
// both are multiples of 1 / kPriorUnits, below 2^17, which a float32 holds exactly.
//
// The upper half of a float is a logarithm: 128 times the binary exponent, plus the seven bits after
// the leading one, which are log2 within 0.09. A parabola over those bits takes most of the rest
// away. The difference of two such logarithms needs one product, no division and no table, so sixteen
// of them are a few instructions on any vector unit; and 1/128 is coarse enough that sixteen-bit
// lanes hold the sum of 17 workers at the default clip.
//
// The weights are antisymmetric, weight(c, t) = -weight(2t - c, t): no side is favoured. And
// |weight * kNatsPerUnit - LLR| <= kWeightErrorNats inside the clip, with a prior or without, checked
// exhaustively by tests/kernels/weight_test.cpp. Integers alone: the same on every machine.
#pragma once

#include <bit>
#include <cstdint>

namespace signvote {

inline constexpr double kNatsPerUnit = 0.69314718055994530942 / 128;
inline constexpr double kWeightErrorNats = 0.02;

/// Counts of 16 bits reach no more than this without a prior. Much more would overflow 16-bit lanes.
inline constexpr double kMaxClip = 11.0;
/// Less would be no unit at all.
inline constexpr double kMinClip = 0.01;

/// A prior is a multiple of 1/128 half-errors.
inline constexpr std::uint32_t kPriorUnits = 128;

/// The height of the parabola, in 1/8 of a unit (of 128). Odd, so that no difference lies between two
/// integers and rounding is the same on both sides of zero.
inline constexpr std::int16_t kLogBulge = 85;

/// The upper 16 bits of x as a float32: 128 * (127 + exponent) + fraction; 0 for 0, which is so far
/// below every other value that a difference with it is always clipped. REQUIRES: x < 2^24.
constexpr std::int16_t float_bits(std::uint32_t x) {
  if (x == 0) return 0;
  const int exponent = std::bit_width(x) - 1;
  const int fraction = static_cast<int>((x << 7) >> exponent) & 127;
  return static_cast<std::int16_t>(128 * (127 + exponent) + fraction);
}

/// A clip in nats as units. REQUIRES: kMinClip <= clip <= kMaxClip.
constexpr std::int16_t clip_units(double clip) {
  return static_cast<std::int16_t>(clip / kNatsPerUnit + 0.5);
}

/// The weight for these two numbers, in any unit. REQUIRES: not both are 0, both are below 2^24.
constexpr std::int16_t weight_of(std::uint32_t right_count, std::uint32_t wrong_count, std::int16_t clip) {
  const int right = float_bits(right_count);
  const int wrong = float_bits(wrong_count);
  const int r = right & 127;
  const int w = wrong & 127;
  const int bulge = (r - w) * (128 - r - w);  // r * (128 - r) - w * (128 - w)
  const int units = right - wrong + ((bulge * kLogBulge + (1 << 14)) >> 15);
  return static_cast<std::int16_t>(units < -clip ? -clip : units > clip ? clip : units);
}

/// REQUIRES: half_errors <= 2 * rounds, 0 < rounds < 32767.
constexpr std::int16_t weight(std::uint16_t half_errors, std::uint32_t rounds, std::int16_t clip) {
  return weight_of(2 * rounds - half_errors, half_errors, clip);
}

/// With a prior: twice_rounds counts it, too. REQUIRES: half_errors + prior <= twice_rounds < 2^17, and both
/// are multiples of 1 / kPriorUnits.
constexpr std::int16_t weight(std::uint16_t half_errors, float prior, float twice_rounds, std::int16_t clip) {
  const auto wrong = kPriorUnits * half_errors + static_cast<std::uint32_t>(kPriorUnits * prior);
  return weight_of(static_cast<std::uint32_t>(kPriorUnits * twice_rounds) - wrong, wrong, clip);
}

}  // namespace signvote
