// The bodies behind conv2d.h. They trust their arguments: conv2d.cpp has checked them.
#pragma once

#include "cpu/isa.h"
#include "ops/conv2d/conv2d.h"

namespace octavo {

inline constexpr bool kConv2dHasCuda = true;

void conv2d_cpu(const TensorView& x, const ConvWeights& w, const ConvArgs& args, const std::optional<TensorView>& residual, const TensorView& y);
// `isa` forces a member, for tests.
void conv2d_cpu_fast(ExecContext& ctx, const TensorView& x, const ConvWeights& w, const ConvArgs& args, const std::optional<TensorView>& residual,
                     const TensorView& y, cpu::Isa isa = cpu::active_isa());
void conv2d_cuda(ExecContext& ctx, const TensorView& x, const ConvWeights& w, const ConvArgs& args, const std::optional<TensorView>& residual,
                 const TensorView& y);

}  // namespace octavo
