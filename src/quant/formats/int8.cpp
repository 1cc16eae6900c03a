#include "quant/formats/int8.h"

#include "quant/quantize.h"

namespace octavo {

void decode_int8_row(const std::int8_t* codes, std::int64_t count, float scale, int rotation_group, float* w) {
  for (std::int64_t k = 0; k < count; ++k) w[k] = float(codes[k]) * scale;
  if (rotation_group > 0) rotate_row(w, count, rotation_group);
}

void undo_smoothing(float* x, std::int64_t count, Smoothing smoothing, const float* s) {
  if (smoothing == Smoothing::divide) {
    for (std::int64_t k = 0; k < count; ++k) x[k] = x[k] / s[k];
  } else if (smoothing == Smoothing::multiply) {
    for (std::int64_t k = 0; k < count; ++k) x[k] = x[k] * s[k];
  }
}

}  // namespace octavo
