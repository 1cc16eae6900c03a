#include "nn/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "octavo/error.h"
#include "ops/gated_act/gated_act.h"
#include "ops/rope/rope.h"

namespace octavo::nn {

namespace {

// The A of all terms one below the other, in the file's type if they agree: the rows of x are then packed once for all of them, which for thin matrices
// is most of the work.
TensorView stacked_down(ExecContext& ctx, std::span<const LoraTerm> terms, std::int64_t columns) {
  std::int64_t rank = 0;
  bool agree = true;
  for (const LoraTerm& term : terms) {
    rank += term.down.rows();
    agree &= term.down.dtype == terms.front().down.dtype;
  }
  const TensorView all = scratch_tensor(ctx, agree ? terms.front().down.dtype : DType::f32, {rank, columns}, "A of LoRAs");
  std::int64_t first = 0;
  for (const LoraTerm& term : terms) {
    for (std::int64_t r = 0; r < term.down.rows(); ++r) {
      if (agree) {
        std::memcpy(all.row_bytes(first++), term.down.row_bytes(r), std::size_t(columns) * bytes_of(all.dtype));
      } else {
        load_as_float(term.down.row_bytes(r), term.down.dtype, columns, all.row<float>(first++));
      }
    }
  }
  return all;
}

void check_lora(const TensorView& x, std::span<const LoraTerm> terms, const TensorView& y) {
  if (!y.device.is_cpu()) throw Unsupported("lora: LoRAs act on the CPU only in this version; use --device cpu or leave --lora out");
  for (const LoraTerm& term : terms) {
    if (term.down.columns() == x.columns() && term.up.columns() == term.down.rows() && term.first_row >= 0 && term.first_row + term.up.rows() <= y.columns())
      continue;
    throw InvalidArgument(fmt::format("lora '{}': A {} and B {} do not fit between rows of {} and columns [{}, {}) of {}", term.module, term.down.shape.text(),
                                      term.up.shape.text(), x.columns(), term.first_row, term.first_row + term.up.rows(), y.columns()));
  }
}

}  // namespace

void add_lora(ExecContext& ctx, const TensorView& x, std::span<const LoraTerm> terms, const TensorView& y) {
  if (terms.empty()) return;
  check_lora(x, terms, y);
  const ArenaScope scope(*ctx.scratch);
  const TensorView down = terms.size() == 1 ? terms.front().down : stacked_down(ctx, terms, x.columns());
  // The scale rides on the inner features, in float32: A and B stay as the file has them.
  const TensorView scale = scratch_tensor(ctx, DType::f32, {down.rows()}, "scale of LoRAs");
  float* next = scale.as<float>();
  for (const LoraTerm& term : terms) next = std::fill_n(next, term.down.rows(), term.scale);
  const TensorView inner = scratch_tensor(ctx, DType::f32, {x.rows(), down.rows()}, "inner rows of LoRAs");
  linear(ctx, x, {.name = terms.front().module, .weight = down}, {.mod_gate = scale}, inner);
  std::int64_t first = 0;
  for (const LoraTerm& term : terms) {
    const TensorView columns = y.column_range(term.first_row, term.up.rows());
    linear(ctx, inner.column_range(first, term.down.rows()), {.name = term.module, .weight = term.up}, {.residual = columns}, columns);
    first += term.down.rows();
  }
}

void LoraLinear::forward_heads(ExecContext& ctx, const RowOutput& x, const HeadNormRope& heads, const TensorView& y) const {
  const auto* codes = std::get_if<QuantizedView>(&x);
  if (terms_.empty() && codes != nullptr && base_.parts().size() == 1 && linear_head_norm_rope(ctx, *codes, base_.parts()[0], heads, y)) return;
  forward(ctx, x, {}, y);
  const std::int64_t columns = y.columns() / 3;
  const int count = int(columns / heads.norm_q.shape.elements());
  head_norm_rope(ctx, y.column_range(0, columns), count, heads.norm_q, heads.eps, heads.cos, heads.sin);
  head_norm_rope(ctx, y.column_range(columns, columns), count, heads.norm_k, heads.eps, heads.cos, heads.sin);
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
