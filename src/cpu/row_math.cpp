#include "cpu/row_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cpu/target.h"

namespace octavo::cpu {
namespace {

constexpr int kLanes = 16;

float halve(float* lane) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  return lane[0];
}

// The largest magnitude as bits: for non-negative floats the order of the bits is the order of the numbers, and
// infinity and NaN come last.
OCTAVO_CPU_CLONES
std::uint32_t largest_magnitude(const float* x, std::int64_t count) {
  std::uint32_t largest = 0;
  for (std::int64_t k = 0; k < count; ++k) largest = std::max(largest, std::bit_cast<std::uint32_t>(x[k]) & 0x7fffffffu);
  return largest;
}

OCTAVO_CPU_CLONES
void to_codes(const float* x, std::int64_t count, float inv_scale, std::int8_t* q) {
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: adding and subtracting it is rint for |value| < 2^22; here |value| <= 127.0001
  for (std::int64_t k = 0; k < count; ++k) {
    const float value = (x[k] * inv_scale + kRound) - kRound;
    const float low = value < -127.0f ? -127.0f : value;
    q[k] = std::int8_t(std::int32_t(low > 127.0f ? 127.0f : low));
  }
}

// One radix-4 part of the rotation over four runs of `stride` numbers.
[[gnu::always_inline]] inline void rotate_runs(float* x, std::int64_t count, std::int64_t stride) {
  for (std::int64_t start = 0; start < count; start += 4 * stride) {
    float* v = x + start;
    for (std::int64_t i = 0; i < stride; ++i) {
      const float a = v[i];
      const float b = v[i + stride];
      const float c = v[i + 2 * stride];
      const float d = v[i + 3 * stride];
      v[i] = 0.5f * (((a + b) + c) - d);
      v[i + stride] = 0.5f * (((a + b) - c) + d);
      v[i + 2 * stride] = 0.5f * (((a - b) + c) + d);
      v[i + 3 * stride] = 0.5f * (((-a + b) + c) + d);
    }
  }
}

// Short strides as constants, so that the compiler vectorises across runs.
OCTAVO_CPU_CLONES
void rotate_by_1(float* x, std::int64_t count) { rotate_runs(x, count, 1); }
OCTAVO_CPU_CLONES
void rotate_by_4(float* x, std::int64_t count) { rotate_runs(x, count, 4); }
OCTAVO_CPU_CLONES
void rotate_by_16(float* x, std::int64_t count) { rotate_runs(x, count, 16); }
OCTAVO_CPU_CLONES
void rotate_by(float* x, std::int64_t count, std::int64_t stride) { rotate_runs(x, count, stride); }

}  // namespace

// Σ term(x[k]) in the order of row_math.h.
template <class Term>
[[gnu::always_inline]] inline float sum_of(const float* x, std::int64_t count, const Term& term) {
  float total[kLanes] = {};
  for (std::int64_t first = 0; first < count; first += kSumBlock) {
    const std::int64_t end = std::min(count, first + kSumBlock);
    float lane[kLanes] = {};
    std::int64_t k = first;
    for (; k + kLanes <= end; k += kLanes) {
      for (int i = 0; i < kLanes; ++i) lane[i] += term(x[k + i]);
    }
    for (int i = 0; k + i < end; ++i) lane[i] += term(x[k + i]);
    for (int i = 0; i < kLanes; ++i) total[i] += lane[i];
  }
  return halve(total);
}

OCTAVO_CPU_CLONES
float sum(const float* x, std::int64_t count) {
  return sum_of(x, count, [](float v) { return v; });
}

OCTAVO_CPU_CLONES
float sum_squares(const float* x, std::int64_t count, float center) {
  return sum_of(x, count, [center](float v) { return (v - center) * (v - center); });
}

OCTAVO_CPU_CLONES
float max_of(const float* x, std::int64_t count) {
  constexpr int kWide = 4 * kLanes;  // a maximum needs no order, so four registers hide its latency
  float lane[kWide];
  std::fill_n(lane, kWide, -std::numeric_limits<float>::infinity());
  std::int64_t k = 0;
  for (; k + kWide <= count; k += kWide) {
    for (int i = 0; i < kWide; ++i) lane[i] = lane[i] < x[k + i] ? x[k + i] : lane[i];
  }
  for (; k + kLanes <= count; k += kLanes) {
    for (int i = 0; i < kLanes; ++i) lane[i] = lane[i] < x[k + i] ? x[k + i] : lane[i];
  }
  for (int i = 0; k + i < count; ++i) lane[i] = lane[i] < x[k + i] ? x[k + i] : lane[i];
  for (int width = kWide / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] = lane[i] < lane[i + width] ? lane[i + width] : lane[i];
  }
  return lane[0];
}

OCTAVO_CPU_CLONES
void scale(float* x, std::int64_t count, float factor) {
  for (std::int64_t k = 0; k < count; ++k) x[k] *= factor;
}

OCTAVO_CPU_CLONES
void scale_by(float* x, std::int64_t count, float factor, const float* weight) {
  for (std::int64_t k = 0; k < count; ++k) x[k] = (x[k] * factor) * weight[k];
}

OCTAVO_CPU_CLONES
void center_and_scale(float* x, std::int64_t count, float center, float factor) {
  for (std::int64_t k = 0; k < count; ++k) x[k] = (x[k] - center) * factor;
}

OCTAVO_CPU_CLONES
void multiply(float* x, const float* y, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) x[k] *= y[k];
}

OCTAVO_CPU_CLONES
void add(float* x, const float* y, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) x[k] += y[k];
}

OCTAVO_CPU_CLONES
void add_gated(float* x, const float* gate, const float* y, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) x[k] += gate[k] * y[k];
}

OCTAVO_CPU_CLONES
void dequantize(const std::int32_t* acc, std::int64_t count, float x_scale, const float* w_scale, float* y) {
  for (std::int64_t n = 0; n < count; ++n) y[n] = (float(acc[n]) * x_scale) * w_scale[n];
}

float quantize_row(const float* x, std::int64_t count, std::int8_t* q) {
  const float absmax = std::bit_cast<float>(largest_magnitude(x, count));
  const float inv_scale = 127.0f / absmax;
  if (std::isfinite(absmax) && std::isfinite(inv_scale)) {
    to_codes(x, count, inv_scale, q);
    return absmax / 127.0f;
  }
  std::fill_n(q, count, std::int8_t(0));
  return std::isfinite(absmax) ? 0.0f : std::numeric_limits<float>::quiet_NaN();
}

void rotate_row(float* x, std::int64_t count, int group) {
  rotate_by_1(x, count);
  if (group > 4) rotate_by_4(x, count);
  if (group > 16) rotate_by_16(x, count);
  for (std::int64_t stride = 64; stride < group; stride *= 4) rotate_by(x, count, stride);
}

}  // namespace octavo::cpu
