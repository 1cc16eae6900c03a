#include "nn/lora.h"

#include <algorithm>

#include "octavo/error.h"
#include "ops/gated_act/gated_act.h"

namespace octavo::nn {

void add_lora(ExecContext& ctx, const TensorView& x, std::span<const LoraTerm> terms, const TensorView& y) {
  if (!y.device.is_cpu() && !terms.empty()) throw Unsupported("lora: LoRAs act on the CPU only in this version; use --device cpu or leave --lora out");
  for (const LoraTerm& term : terms) {
    const ArenaScope scope(*ctx.scratch);
    const std::int64_t rank = term.down.rows();
    // The scale rides on the r inner features, in float32: A and B stay as the file has them.
    const TensorView scale = scratch_tensor(ctx, DType::f32, {rank}, "scale of a LoRA");
    std::fill_n(scale.as<float>(), rank, term.scale);
    const TensorView inner = scratch_tensor(ctx, DType::f32, {x.rows(), rank}, "inner rows of a LoRA");
    linear(ctx, x, {.name = term.module, .weight = term.down}, {.mod_gate = scale}, inner);
    const TensorView columns = y.column_range(term.first_row, term.up.rows());
    linear(ctx, inner, {.name = term.module, .weight = term.up}, {.residual = columns}, columns);
  }
}

void LoraLinear::forward(ExecContext& ctx, const RowOutput& x, const Epilogue& epilogue, const TensorView& y) const {
  if (terms_.empty()) return base_.forward(ctx, x, epilogue, y);
  const auto* floats = std::get_if<TensorView>(&x);
  if (floats == nullptr) throw InternalError("lora: the rows are already quantised; a LoRA acts on floats");
  if (epilogue.mod_gate || epilogue.residual) throw InternalError("lora: an epilogue with a gate or a residual would be applied before the LoRA");
  base_.forward(ctx, x, {}, y);
  add_lora(ctx, *floats, terms_, y);
  if (epilogue.activation == Activation::silu) silu(ctx, y);
}

}  // namespace octavo::nn
