// Rotary position embedding with a norm per head before it.
#pragma once

#include <optional>
#include <span>

#include "ops/exec_context.h"
#include "tensor/tensor.h"

namespace octavo {

// For every row and head, in place:  v = rms_norm(v; weight, eps);  then the rotate-half form
//   v'[i] = v[i] cos_i - v[i + D/2] sin_i,   v'[i + D/2] = v[i + D/2] cos_i + v[i] sin_i,   i < D/2
// x f32/bf16/f16 [M, heads · D], rows may be strided (a slice of a fused qkv buffer); weight f32/bf16/f16 [D];
// cos, sin f32 [M, D/2], from numerics.md section 9. Float32 inside, one rounding at the end.
void head_norm_rope(ExecContext& ctx, const TensorView& x, int heads, const TensorView& weight, float eps, const TensorView& cos, const TensorView& sin);

// angle = f32(pos · w_k), w_k = f32(1 / f32(theta^(2k/D))); cos and sin are the float32 roundings of the float64 functions. numerics.md section 9
// positions f32 [M, axes]; `axis_of` says which of the `axes` position k uses, k < D/2; cos, sin f32 [M, D/2] on the CPU.
void rope_table(const TensorView& positions, std::span<const int> axis_of, double theta, int head_dim, const TensorView& cos, const TensorView& sin);

}  // namespace octavo
