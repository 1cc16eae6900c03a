// The bodies behind rope.h. They trust their arguments: rope.cpp has checked them.
#pragma once

#include "ops/rope/rope.h"

namespace octavo {

inline constexpr bool kRopeHasCuda = true;

void head_norm_rope_cpu(const TensorView& x, int heads, const TensorView& weight, float eps, const TensorView& cos, const TensorView& sin);
void head_norm_rope_cpu_fast(ExecContext& ctx, const TensorView& x, int heads, const TensorView& weight, float eps, const TensorView& cos,
                             const TensorView& sin);
void head_norm_rope_cuda(ExecContext& ctx, const TensorView& x, int heads, const TensorView& weight, float eps, const TensorView& cos, const TensorView& sin);

}  // namespace octavo
