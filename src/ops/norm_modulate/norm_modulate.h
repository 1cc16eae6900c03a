// Row normalisation with adaLN modulation, and the gated residual that precedes it. One pass over memory each.
#pragma once

#include <optional>

#include "ops/exec_context.h"
#include "ops/row_output.h"

namespace octavo {

// rms_norm:   y[m,:] = (x[m,:] · rsqrt(mean_k x[m,k]² + eps)) · weight · (1 + mod_scale)
// x f32/bf16/f16 [M,K]; weight f32/bf16/f16 [K]; mod_scale f32 [K] or absent; out [M,K]. All float steps in float32,
// the sum of squares in a fixed order. out may alias x when it is a float view of the same dtype.
struct NormArgs {
  TensorView weight{};  // [K]; for layer_norm unused
  float eps = 0;
  std::optional<TensorView> mod_scale{};  // f32 [K]; the row is multiplied by (1 + mod_scale)
};
void rms_norm(ExecContext& ctx, const TensorView& x, const NormArgs& args, const RowOutput& out);

// layer_norm: y[m,:] = (x[m,:] - mean) · rsqrt(var + eps) · (1 + mod_scale); biased variance, two passes, no affine weights.
void layer_norm(ExecContext& ctx, const TensorView& x, float eps, const std::optional<TensorView>& mod_scale, const RowOutput& out);

// The seam between two sub-blocks of a sandwich-norm transformer, one pass over the row:
//   residual[m,:] += tanh(mod_gate) · rms_norm(y[m,:]; post)            (post.mod_scale unused)
//   out[m,:]       = rms_norm(residual[m,:]; next)                      (skipped if `out` is absent)
// residual f32/bf16/f16 [M,K], updated in place and rounded to its dtype before the second norm reads it;
// y f32/bf16/f16 [M,K]; mod_gate f32 [K], before tanh.
void gated_residual_norm(ExecContext& ctx, const TensorView& residual, const TensorView& y, const TensorView& mod_gate, const NormArgs& post,
                         const NormArgs& next, const std::optional<RowOutput>& out);

// x[m,:] += y[m,:], rounded to x's dtype. f32/bf16/f16 [M,K].
void add_rows(ExecContext& ctx, const TensorView& x, const TensorView& y);

}  // namespace octavo
