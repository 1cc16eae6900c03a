// Which attention the denoisers run where nobody said which.
#pragma once

#include "ops/attention/attention_int8_launch.h"
#include "ops/exec_context.h"
#include "ops/op_limit.h"
#include "quant/precision.h"

namespace octavo {

// What was asked for, or else: int8 scores beside int8 linears on a GPU that multiplies int8 four times as fast as bf16 (every GeForce from sm_86 on) and has a
// body for the head size; there it takes about half of the time, and the linears' codes cost a picture more than it does (docs/performance.md). Floats
// elsewhere. `sm`: compute capability, 0 for the CPU. A function of the request's precision, the model and the GPU, so that the same request keeps its bytes.
inline AttentionKind settled_attention(AttentionKind asked, const Precision& precision, int sm, int head_dim) {
  if (asked != AttentionKind::automatic) return asked;
  const bool is_int8 = precision.activation.is_quantized() && !precision.dequantizes();
  const bool is_faster = sm > 80 && macs_per_clock(DType::s8, sm) >= 4 * macs_per_clock(DType::bf16, sm);
  return is_int8 && is_faster && has_attention_int8_size(head_dim) ? AttentionKind::int8 : AttentionKind::floats;
}

}  // namespace octavo
