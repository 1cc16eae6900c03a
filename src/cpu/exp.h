// e^x in float32 without a branch, so that a compiler turns a loop of it into vector code.
#pragma once

#include <bit>
#include <cstdint>

namespace octavo::cpu {

// Relative error <= 3 · 2^-24 where the result is a normal number, <= one step of the subnormals below; e^NaN = NaN, overflow is infinity.
//   x = n ln2 + r, |r| <= ln2 / 2:  the Taylor series of e^r to r^7 leaves (ln2 / 2)^8 / 8! = 5.2e-9 = 0.09 · 2^-24;
//   r is exact but for the low part of ln2 (one rounding of r); the last sum rounds once (1 · 2^-24) and carries the roundings of
//   r + r² q, which is at most 0.42 of the result (<= 4 roundings of it, 1.7 · 2^-24).
// Every step is one IEEE operation: the same bits on every processor.
[[gnu::always_inline]] inline float exp_of(float x) {
  constexpr float kRound = 12582912.0f;              // 1.5 · 2^23: adding it rounds to an integer in the low bits
  const float at_least = x < -104.0f ? -104.0f : x;  // e^-104 is below half the smallest subnormal
  const float clamped = at_least > 89.0f ? 89.0f : at_least;
  const float shifted = clamped * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float high = clamped - n * 0.693145752f;  // ln2 to 15 bits: the product with |n| < 256 is exact
  const float r = high - n * 1.42860677e-6f;      // the rest of ln2
  float q = 1.98412698e-4f;                       // 1/7!
  q = q * r + 1.38888889e-3f;
  q = q * r + 8.33333333e-3f;
  q = q * r + 4.16666667e-2f;
  q = q * r + 0.166666667f;
  q = q * r + 0.5f;
  const float value = 1.0f + (r + r * r * q);
  // 2^n in two factors: n reaches -150 and 128, beyond what one exponent holds.
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  const std::int32_t first = exponent >> 1;
  const float scaled = value * std::bit_cast<float>((first + 127) << 23);
  return scaled * std::bit_cast<float>((exponent - first + 127) << 23);
}

}  // namespace octavo::cpu
