// The bodies behind norm_modulate.h. They trust their arguments: norm_modulate.cpp has checked them.
#pragma once

#include "ops/norm_modulate/norm_modulate.h"

namespace octavo {

inline constexpr bool kNormModulateHasCuda = true;

void rms_norm_cpu(const TensorView& x, const NormArgs& args, const RowOutput& out);
void layer_norm_cpu(const TensorView& x, float eps, const std::optional<TensorView>& mod_scale, const RowOutput& out);
void gated_residual_norm_cpu(const TensorView& residual, const TensorView& y, const TensorView& mod_gate, const NormArgs& post, const NormArgs& next,
                             const std::optional<RowOutput>& out);
void add_rows_cpu(const TensorView& x, const TensorView& y);

void rms_norm_cpu_fast(ExecContext& ctx, const TensorView& x, const NormArgs& args, const RowOutput& out);
void layer_norm_cpu_fast(ExecContext& ctx, const TensorView& x, float eps, const std::optional<TensorView>& mod_scale, const RowOutput& out);
void gated_residual_norm_cpu_fast(ExecContext& ctx, const TensorView& residual, const TensorView& y, const TensorView& mod_gate, const NormArgs& post,
                                  const NormArgs& next, const std::optional<RowOutput>& out);
void add_rows_cpu_fast(ExecContext& ctx, const TensorView& x, const TensorView& y);

void rms_norm_cuda(ExecContext& ctx, const TensorView& x, const NormArgs& args, const RowOutput& out);
void layer_norm_cuda(ExecContext& ctx, const TensorView& x, float eps, const std::optional<TensorView>& mod_scale, const RowOutput& out);
void gated_residual_norm_cuda(ExecContext& ctx, const TensorView& residual, const TensorView& y, const TensorView& mod_gate, const NormArgs& post,
                              const NormArgs& next, const std::optional<RowOutput>& out);
void add_rows_cuda(ExecContext& ctx, const TensorView& x, const TensorView& y);

}  // namespace octavo
