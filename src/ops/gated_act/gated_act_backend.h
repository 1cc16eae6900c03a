// The bodies behind gated_act.h. They trust their arguments: gated_act.cpp has checked them.
#pragma once

#include "ops/gated_act/gated_act.h"

namespace octavo {

inline constexpr bool kGatedActHasCuda = true;

void silu_mul_cpu(const TensorView& act_gate, const TensorView& up, const RowOutput& out);
void silu_cpu(const TensorView& x);

void silu_mul_cpu_fast(ExecContext& ctx, const TensorView& act_gate, const TensorView& up, const RowOutput& out);
void silu_cpu_fast(ExecContext& ctx, const TensorView& x);

void silu_mul_cuda(ExecContext& ctx, const TensorView& act_gate, const TensorView& up, const RowOutput& out);
void silu_cuda(ExecContext& ctx, const TensorView& x);

}  // namespace octavo
