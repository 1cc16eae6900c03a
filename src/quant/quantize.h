// The W8A8 arithmetic on the host: the definition that every kernel is judged by. numerics.md sections 2, 3, 6.
#pragma once

#include <cstdint>

#include "quant/formats/int8.h"
#include "tensor/tensor.h"

namespace octavo {

// Largest K for which sum of K products of codes in [-127, 127] fits int32: 127^2 * K < 2^31.
inline constexpr std::int64_t kMaxExactK = 133144;

// A quantised matrix: codes and scales, real = scale * q. `q` s8 [rows, K], `scale` f32 [rows].
struct QuantizedView {
  TensorView q{};
  TensorView scale{};
  int rotation_group = 0;  // 0: not rotated; else the ConvRot group size G that was applied along K
};

// What rows go through before they are rotated and quantised, if the weight went through the opposite: x[k] / s[k] or x[k] · s[k]. s f32 [K].
struct RowSmoothing {
  Smoothing way = Smoothing::none;
  TensorView s{};

  bool acts() const { return way != Smoothing::none; }
};

// Activations, per token.   a = max_k |x[k]|,  scale = a / 127,  q = clamp(rint(x * (127 / a)), -127, 127).   numerics.md section 3
// A zero row, or one whose 127 / a is not finite: scale 0, q 0. A NaN or infinity anywhere: scale NaN, q 0.
// Returns the scale.
float quantize_row(const float* x, std::int64_t count, std::int8_t* q);

// Weights, per output channel.   scale = max_k |w[k]| / 127,  q = clamp(rint(w / scale), -127, 127).   numerics.md section 2
// A zero row: scale 0, q 0. Returns the scale. Throws nothing; a non-finite weight gives scale NaN, q 0.
float quantize_weight_row(const float* w, std::int64_t count, std::int8_t* q);

// Rotates `count` values in place, group by group, by the Kronecker power of
// 1/2 [[1,1,1,-1],[1,1,-1,1],[1,-1,1,1],[-1,1,1,1]]: log4(group) radix-4 parts, stride 1 first, each 1/2 (((a ± b) ± c) ± d). numerics.md section 6
// `group` = 4^n divides `count`. The rotation is its own inverse.
void rotate_row(float* x, std::int64_t count, int group);

// True for 4, 16, 64, 256, 1024, ...
bool is_rotation_group(int group);

}  // namespace octavo
