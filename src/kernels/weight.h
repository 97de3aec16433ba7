// The integer weight of a worker at a coordinate: its log-likelihood ratio, in units of ln(2) / 128.
//
//   LLR = ln((1 - p) / p)  with  p = c / 2t,  so  LLR = ln(2t - c) - ln(c)
//   weight(c, t) = clamp(log_units(2t - c) - log_units(c), -clip, +clip)
//
// log_units(x) is 128 * log2(x) by integers alone: 128 per binary exponent, and between two powers
// of two the straight lines through 17 knots. Base 2 because the exponent then needs no table and
// adds no error; 1/128 because sixteen-bit lanes then hold the sum of 17 workers at the default
// clip. The weights are antisymmetric, weight(c, t) = -weight(2t - c, t): no side is favoured.
//
// |weight * kNatsPerUnit - LLR| <= kWeightErrorNats inside the clip; the bound is checked
// exhaustively by tests/kernels/weight_test.cpp. Never libm at run time: the same integers everywhere.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace signvote {

inline constexpr double kNatsPerUnit = 0.69314718055994530942 / 128;
inline constexpr double kWeightErrorNats = 0.01;

/// More than this is never reached by counts of 16 bits, and would overflow sums of 16-bit lanes.
inline constexpr double kMaxClip = 11.0;

/// round(128 * log2(1 + k / 16)).
inline constexpr std::array<std::int16_t, 17> kLogKnots = {0,  11, 22, 32,  41,  50,  59,  67, 75,
                                                           82, 90, 97, 103, 110, 116, 122, 128};

/// log_units(0): so far below every other value that a difference with it is always clipped.
inline constexpr std::int16_t kLogOfZero = -8192;

constexpr std::int16_t log_units(std::uint16_t x) {
  if (x == 0) return kLogOfZero;
  const int exponent = std::bit_width(x) - 1;
  const int fraction = (x << (15 - exponent)) & 0x7fff;  // of 2^15
  const int knot = fraction >> 11;
  const int beyond = fraction & 0x7ff;  // of 2^11
  const int rise = kLogKnots[static_cast<std::size_t>(knot) + 1] - kLogKnots[static_cast<std::size_t>(knot)];
  return static_cast<std::int16_t>(128 * exponent + kLogKnots[static_cast<std::size_t>(knot)] +
                                   ((rise * beyond + 1024) >> 11));
}

/// A clip in nats as units. REQUIRES: 0 < clip <= kMaxClip.
constexpr std::int16_t clip_units(double clip) {
  return static_cast<std::int16_t>(clip / kNatsPerUnit + 0.5);
}

/// REQUIRES: half_errors <= 2 * rounds, 0 < rounds <= 32767.
constexpr std::int16_t weight(std::uint16_t half_errors, std::uint32_t rounds, std::int16_t clip) {
  const auto agreements = static_cast<std::uint16_t>(2 * rounds - half_errors);
  const int units = log_units(agreements) - log_units(half_errors);
  return static_cast<std::int16_t>(units < -clip ? -clip : units > clip ? clip : units);
}

}  // namespace signvote
