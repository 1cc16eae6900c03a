#include "ops/gated_act/gated_act.h"

#include "base/build.h"
#include "ops/gated_act/gated_act_backend.h"
#include "ops/op_work.h"
#include "ops/row_store.h"

namespace octavo {

void silu_mul(ExecContext& ctx, const TensorView& act_gate, const TensorView& up, const RowOutput& out) {
  constexpr std::string_view op = "silu_mul";
  check_float_matrix(op, "act_gate", act_gate, act_gate.rows(), act_gate.columns(), act_gate.device);
  check_float_matrix(op, "up", up, act_gate.rows(), act_gate.columns(), act_gate.device);
  check_row_output(op, out, act_gate.rows(), act_gate.columns(), act_gate.device);
  const OpSpan span(ctx, [&] { return row_work(op, act_gate, bytes_of_rows(act_gate) + bytes_of_rows(up) + bytes_of_rows(out)); });
  if (act_gate.device.is_cpu()) return ctx.reference ? silu_mul_cpu(act_gate, up, out) : silu_mul_cpu_fast(ctx, act_gate, up, out);
  if constexpr (build::has_cuda && kGatedActHasCuda) return silu_mul_cuda(ctx, act_gate, up, out);
  no_gpu_body(op);
}

void silu(ExecContext& ctx, const TensorView& x) {
  constexpr std::string_view op = "silu";
  check_matrix(op, "x", x, DType::f32, x.rows(), x.columns(), x.device);
  const OpSpan span(ctx, [&] { return row_work(op, x, 2 * bytes_of_rows(x)); });
  if (x.device.is_cpu()) return ctx.reference ? silu_cpu(x) : silu_cpu_fast(ctx, x);
  if constexpr (build::has_cuda && kGatedActHasCuda) return silu_cuda(ctx, x);
  no_gpu_body(op);
}

}  // namespace octavo
