// Group normalisation over a whole map, with SiLU behind it if asked.
#pragma once

#include "ops/exec_context.h"
#include "tensor/tensor.h"

namespace octavo {

struct GroupNormArgs {
  TensorView weight{};  // f32/bf16/f16 [C]
  TensorView bias{};    // f32/bf16/f16 [C]
  int groups = 0;       // divides C
  float eps = 0;
  bool silu = false;  // applied to the result
};

// y = (x - mean_g) · rsqrt(var_g + eps) · weight + bias, statistics over H × W × (C / groups), biased variance.
// x, y f32/bf16/f16 [H, W, C]; y may alias x. Sums in a fixed order (float64 across rows), whatever the number of threads.
void group_norm(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& y);

// The same in two halves, so that the second may run on any rows of the map, one strip after the other: same bits.
// statistics f32 [groups, 2]: mean_g, rsqrt(var_g + eps).
void group_norm_statistics(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& statistics);
void group_norm_apply(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& statistics, const TensorView& y);

}  // namespace octavo
