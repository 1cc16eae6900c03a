// e^x in float32 without a branch, so that a compiler turns a loop of it into vector code.
// Every step is one IEEE operation or one fused multiply-add: the same bits on every processor (slow where fma is a library call).
#pragma once

#include <bit>
#include <cstdint>

namespace octavo::cpu {

inline constexpr float kRoundToInteger = 12582912.0f;  // 1.5 · 2^23: after adding it the low bits hold the nearest integer

// x = n ln2 + r with |r| <= ln2 / 2;  n + kRoundToInteger in `shifted`;  returns e^r, relative error <= 2.1 · 2^-24:
// the Taylor series to r^7 leaves (ln2 / 2)^8 / 8! = 0.09 · 2^-24, the last step rounds once, and r · q, at most 0.42 of the result,
// carries the rounding of r (in two fused steps, |r| 2^-24 each) and of q.
[[gnu::always_inline]] inline float exp_of_rest(float x, float& shifted) {
  shifted = __builtin_fmaf(x, 1.44269504f, kRoundToInteger);
  const float n = shifted - kRoundToInteger;
  float r = __builtin_fmaf(n, -0.693147182f, x);  // ln2 as float32, and what is missing to ln2
  r = __builtin_fmaf(n, 1.90465421e-9f, r);
  float q = 1.98412698e-4f;  // 1/7!
  q = __builtin_fmaf(q, r, 1.38888889e-3f);
  q = __builtin_fmaf(q, r, 8.33333333e-3f);
  q = __builtin_fmaf(q, r, 4.16666667e-2f);
  q = __builtin_fmaf(q, r, 0.166666667f);
  q = __builtin_fmaf(q, r, 0.5f);
  q = __builtin_fmaf(q, r, 1.0f);
  return __builtin_fmaf(q, r, 1.0f);
}

// e^x for any x. Relative error <= 3 · 2^-24 where the result is normal, one step more among the subnormals; overflow is infinity, NaN stays.
[[gnu::always_inline]] inline float exp_of(float x) {
  const float at_least = x < -104.0f ? -104.0f : x;  // e^-104 is below half the smallest subnormal
  const float clamped = at_least > 89.0f ? 89.0f : at_least;
  float shifted = 0;
  const float value = exp_of_rest(clamped, shifted);
  // 2^n in two factors: n reaches -150 and 128, beyond what one exponent holds.
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRoundToInteger);
  const std::int32_t first = exponent >> 1;
  const float scaled = value * std::bit_cast<float>((first + 127) << 23);
  return scaled * std::bit_cast<float>((exponent - first + 127) << 23);
}

// e^x for x <= 0, as in a softmax; results below 2^-126 are 0. Relative error <= 3 · 2^-24 otherwise; NaN stays.
[[gnu::always_inline]] inline float exp_of_nonpositive(float x) {
  constexpr float kLowest = -87.0f;  // e^-87 = 1.4 · 2^-126
  float shifted = 0;
  const float value = exp_of_rest(x < kLowest ? kLowest : x, shifted);
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRoundToInteger);
  const float scaled = value * std::bit_cast<float>((exponent + 127) << 23);
  return x < kLowest ? 0.0f : scaled;
}

}  // namespace octavo::cpu
