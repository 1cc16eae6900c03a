// Rows of a table, and the sinusoid of a model time.
#pragma once

#include <cstdint>
#include <span>

#include "ops/exec_context.h"
#include "tensor/tensor.h"

namespace octavo {

// y[i,:] = table[ids[i],:].  table f32/bf16/f16 [V, K], y f32/bf16/f16 [n, K].
// Throws InvalidArgument if an id is outside [0, V).
void embed_rows(ExecContext& ctx, const TensorView& table, std::span<const std::int32_t> ids, const TensorView& y);

// y = [sin(a_0) ... sin(a_{h-1}), cos(a_0) ...], h = columns/2, a_k = 10000 · t · exp(-k ln(10000) / (h - 1)).
// f_k and a_k are float32 as in the reference, sin and cos float64 rounded to float32. y f32 [columns] on the CPU. spec section 3.3
void time_sinusoid(float t, const TensorView& y);

}  // namespace octavo
