#include "ops/norm_modulate/norm_modulate.h"

#include "base/build.h"
#include "ops/norm_modulate/norm_modulate_backend.h"
#include "ops/op_work.h"
#include "ops/row_store.h"

namespace octavo {
namespace {

void check_norm(std::string_view op, const NormArgs& args, std::int64_t columns, Device device) {
  check_float_vector(op, "weight", args.weight, columns, device);
  if (args.mod_scale) check_vector(op, "mod_scale", *args.mod_scale, DType::f32, columns, device);
}

}  // namespace

void rms_norm(ExecContext& ctx, const TensorView& x, const NormArgs& args, const RowOutput& out) {
  constexpr std::string_view op = "rms_norm";
  check_float_matrix(op, "x", x, x.rows(), x.columns(), x.device);
  check_norm(op, args, x.columns(), x.device);
  check_row_output(op, out, x.rows(), x.columns(), x.device);
  const OpSpan span(ctx, [&] { return row_work(op, x, bytes_of_rows(x) + bytes_of_rows(out)); });
  if (x.device.is_cpu()) return ctx.reference ? rms_norm_cpu(x, args, out) : rms_norm_cpu_fast(ctx, x, args, out);
  if constexpr (build::has_cuda && kNormModulateHasCuda) return rms_norm_cuda(ctx, x, args, out);
  no_gpu_body(op);
}

void layer_norm(ExecContext& ctx, const TensorView& x, float eps, const std::optional<TensorView>& mod_scale, const RowOutput& out) {
  constexpr std::string_view op = "layer_norm";
  check_float_matrix(op, "x", x, x.rows(), x.columns(), x.device);
  if (mod_scale) check_vector(op, "mod_scale", *mod_scale, DType::f32, x.columns(), x.device);
  check_row_output(op, out, x.rows(), x.columns(), x.device);
  const OpSpan span(ctx, [&] { return row_work(op, x, bytes_of_rows(x) + bytes_of_rows(out)); });
  if (x.device.is_cpu()) return ctx.reference ? layer_norm_cpu(x, eps, mod_scale, out) : layer_norm_cpu_fast(ctx, x, eps, mod_scale, out);
  if constexpr (build::has_cuda && kNormModulateHasCuda) return layer_norm_cuda(ctx, x, eps, mod_scale, out);
  no_gpu_body(op);
}

void gated_residual_norm(ExecContext& ctx, const TensorView& residual, const TensorView& y, const TensorView& mod_gate, const NormArgs& post,
                         const NormArgs& next, const std::optional<RowOutput>& out) {
  constexpr std::string_view op = "gated_residual_norm";
  const Device device = residual.device;
  check_float_matrix(op, "residual", residual, residual.rows(), residual.columns(), device);
  check_float_matrix(op, "y", y, residual.rows(), residual.columns(), device);
  check_vector(op, "mod_gate", mod_gate, DType::f32, residual.columns(), device);
  check_norm(op, post, residual.columns(), device);
  if (out) {
    check_norm(op, next, residual.columns(), device);
    check_row_output(op, *out, residual.rows(), residual.columns(), device);
  }
  const OpSpan span(ctx, [&] { return row_work(op, residual, 2 * bytes_of_rows(residual) + bytes_of_rows(y) + (out ? bytes_of_rows(*out) : 0)); });
  if (device.is_cpu()) {
    return ctx.reference ? gated_residual_norm_cpu(residual, y, mod_gate, post, next, out)
                         : gated_residual_norm_cpu_fast(ctx, residual, y, mod_gate, post, next, out);
  }
  if constexpr (build::has_cuda && kNormModulateHasCuda) return gated_residual_norm_cuda(ctx, residual, y, mod_gate, post, next, out);
  no_gpu_body(op);
}

void add_rows(ExecContext& ctx, const TensorView& x, const TensorView& y) {
  constexpr std::string_view op = "add_rows";
  check_float_matrix(op, "x", x, x.rows(), x.columns(), x.device);
  check_float_matrix(op, "y", y, x.rows(), x.columns(), x.device);
  const OpSpan span(ctx, [&] { return row_work(op, x, 2 * bytes_of_rows(x) + bytes_of_rows(y)); });
  if (x.device.is_cpu()) return ctx.reference ? add_rows_cpu(x, y) : add_rows_cpu_fast(ctx, x, y);
  if constexpr (build::has_cuda && kNormModulateHasCuda) return add_rows_cuda(ctx, x, y);
  no_gpu_body(op);
}

}  // namespace octavo
