#include "quant/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace octavo {
namespace {

constexpr float kMaxCode = 127.0f;

// max |x|, or NaN if any element is NaN or infinite.
float finite_absmax(const float* x, std::int64_t count) {
  float absmax = 0;
  bool finite = true;
  for (std::int64_t k = 0; k < count; ++k) {
    finite = finite && std::isfinite(x[k]);
    absmax = std::max(absmax, std::fabs(x[k]));
  }
  return finite ? absmax : std::numeric_limits<float>::quiet_NaN();
}

std::int8_t to_code(float value) { return std::int8_t(std::clamp(std::rint(value), -kMaxCode, kMaxCode)); }

}  // namespace

float quantize_row(const float* x, std::int64_t count, std::int8_t* q) {
  const float absmax = finite_absmax(x, count);
  const float inv_scale = kMaxCode / absmax;
  if (!std::isfinite(inv_scale)) {  // NaN or infinity in the row, a zero row, or one too small to invert
    std::fill_n(q, count, std::int8_t(0));
    return std::isnan(absmax) ? absmax : 0.0f;
  }
  for (std::int64_t k = 0; k < count; ++k) q[k] = to_code(x[k] * inv_scale);
  return absmax / kMaxCode;
}

float quantize_weight_row(const float* w, std::int64_t count, std::int8_t* q) {
  const float absmax = finite_absmax(w, count);
  const float scale = absmax / kMaxCode;
  if (std::isnan(scale) || scale == 0.0f) {
    std::fill_n(q, count, std::int8_t(0));
    return scale;
  }
  for (std::int64_t k = 0; k < count; ++k) q[k] = to_code(w[k] / scale);
  return scale;
}

void rotate_row(float* x, std::int64_t count, int group) {
  for (std::int64_t start = 0; start < count; start += group) {
    for (int stride = 1; stride < group; stride *= 4) {
      for (int i = 0; i < group; ++i) {
        if ((i / stride) % 4 != 0) continue;
        float* v = x + start + i;
        const float a = v[0];
        const float b = v[stride];
        const float c = v[2 * stride];
        const float d = v[3 * stride];
        v[0] = 0.5f * (((a + b) + c) - d);
        v[stride] = 0.5f * (((a + b) - c) + d);
        v[2 * stride] = 0.5f * (((a - b) + c) + d);
        v[3 * stride] = 0.5f * (((-a + b) + c) + d);
      }
    }
  }
}

bool is_rotation_group(int group) {
  if (group < 4) return false;
  while (group > 1 && group % 4 == 0) group /= 4;
  return group == 1;
}

}  // namespace octavo
