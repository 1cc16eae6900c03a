// SwiGLU's product, and plain SiLU.
#pragma once

#include "ops/exec_context.h"
#include "ops/row_output.h"

namespace octavo {

// out[m,k] = silu(act_gate[m,k]) · up[m,k],  silu(a) = a / (1 + exp(-a)), float32 inside.
// act_gate, up f32/bf16/f16 [M,K], rows may be strided; out [M,K]. A float output may alias either input.
void silu_mul(ExecContext& ctx, const TensorView& act_gate, const TensorView& up, const RowOutput& out);

// x = silu(x), in place. f32 [M,K].
void silu(ExecContext& ctx, const TensorView& x);

}  // namespace octavo
