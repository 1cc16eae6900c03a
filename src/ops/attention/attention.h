// Scaled dot-product attention without a stored score matrix.
#pragma once

#include "ops/exec_context.h"
#include "tensor/tensor.h"

namespace octavo {

struct AttentionArgs {
  int heads = 0;            // query heads
  int kv_heads = 0;         // divides heads; query head h reads key/value head h / (heads / kv_heads)
  float softmax_scale = 0;  // multiplies q·k
  bool causal = false;      // query i sees keys 0 ... i (requires as many keys as queries)
};

// y[i, h, :] = Σ_j softmax_j( softmax_scale · q[i,h,:] · k[j,h',:] ) v[j,h',:]
// q f32/bf16/f16 [Lq, heads · D]; k, v [Lk, kv_heads · D]; y [Lq, heads · D]; rows may be strided (slices of a fused buffer).
// Softmax in float32. A row of y does not depend on the other queries nor on the number of threads. y must not alias q, k, v.
void attention(ExecContext& ctx, const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const TensorView& y);

}  // namespace octavo
