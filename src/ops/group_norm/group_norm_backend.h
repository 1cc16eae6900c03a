// The bodies behind group_norm.h. They trust their arguments: group_norm.cpp has checked them.
#pragma once

#include "ops/group_norm/group_norm.h"

namespace octavo {

inline constexpr bool kGroupNormHasCuda = true;

void group_norm_statistics_cpu(const TensorView& x, const GroupNormArgs& args, const TensorView& statistics);
void group_norm_statistics_cpu_fast(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& statistics);
void group_norm_statistics_cuda(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& statistics);

void group_norm_apply_cpu(const TensorView& x, const GroupNormArgs& args, const TensorView& statistics, const TensorView& y);
void group_norm_apply_cpu_fast(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& statistics, const TensorView& y);
void group_norm_apply_cuda(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& statistics, const TensorView& y);

}  // namespace octavo
