// The bodies behind linear.h. They trust their arguments: linear.cpp has checked them.
#pragma once

#include "cpu/isa.h"
#include "ops/linear/linear.h"

namespace octavo {

inline constexpr bool kLinearHasCuda = true;

void linear_cpu(const TensorView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y);
void linear_cpu(const QuantizedView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y);
void linear_accumulate_cpu(const TensorView& x, const TensorView& w, const TensorView& acc);
// What alternating rows become, over either body: a GPU alone has such weights.
void linear_silu_mul_cpu(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const TensorView& y);
void linear_halves_cpu(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const TensorView& y);

// `isa` forces a member, for tests and benches.
void linear_cpu_fast(ExecContext& ctx, const TensorView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y,
                     cpu::Isa isa = cpu::active_isa());
void linear_cpu_fast(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y,
                     cpu::Isa isa = cpu::active_isa());
void linear_accumulate_cpu_fast(ExecContext& ctx, const TensorView& x, const TensorView& w, const TensorView& acc, cpu::Isa isa = cpu::active_isa());

void linear_cuda(ExecContext& ctx, const TensorView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y);
void linear_cuda(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const Epilogue& epilogue, const TensorView& y);
void linear_halves_cuda(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const TensorView& y);
// Whether linear_head_norm_rope_cuda can do it.
bool fits_head_norm_rope_cuda(const QuantizedView& x, const LinearWeights& w, const HeadNormRope& heads, const TensorView& y);
void linear_head_norm_rope_cuda(ExecContext& ctx, const QuantizedView& x, const LinearWeights& w, const HeadNormRope& heads, const TensorView& y);
void linear_accumulate_cuda(ExecContext& ctx, const TensorView& x, const TensorView& w, const TensorView& acc);

}  // namespace octavo
