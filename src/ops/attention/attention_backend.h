// The bodies behind attention.h. They trust their arguments: attention.cpp has checked them.
#pragma once

#include "cpu/isa.h"
#include "ops/attention/attention.h"

namespace octavo {

inline constexpr bool kAttentionHasCuda = true;

void attention_cpu(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const TensorView& y);
// `isa` forces a member, for tests.
void attention_cpu_fast(ExecContext& ctx, const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const TensorView& y,
                        cpu::Isa isa = cpu::active_isa());
void attention_cuda(ExecContext& ctx, const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const TensorView& y);

}  // namespace octavo
