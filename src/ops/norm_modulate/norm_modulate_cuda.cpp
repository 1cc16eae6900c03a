#include "device/cuda_check.h"
#include "ops/norm_modulate/norm_launch.h"
#include "ops/norm_modulate/norm_modulate_backend.h"
#include "ops/row_launch.h"

namespace octavo {
namespace {

VectorIn vector_in(const TensorView& view) { return {view.data, row_type(view.dtype)}; }
VectorIn vector_in(const std::optional<TensorView>& view) { return view ? vector_in(*view) : VectorIn{}; }

void select_device(Device device) { cuda_check(cudaSetDevice(device.index), "norm_modulate: select device"); }

}  // namespace

void rms_norm_cuda(ExecContext& ctx, const TensorView& x, const NormArgs& args, const RowOutput& out) {
  check_kernel_range("rms_norm", x.rows(), x.columns());
  if (x.shape.elements() == 0) return;
  select_device(x.device);
  launch_norm({.x = rows_in(x),
               .out = rows_out("rms_norm", out),
               .weight = vector_in(args.weight),
               .mod_scale = vector_in(args.mod_scale),
               .eps = args.eps,
               .center = false,
               .rows = x.rows(),
               .columns = int(x.columns()),
               .inverse_columns = 1.0f / float(x.columns())},
              x.device.index, stream_of(ctx));
}

void layer_norm_cuda(ExecContext& ctx, const TensorView& x, float eps, const std::optional<TensorView>& mod_scale, const RowOutput& out) {
  check_kernel_range("layer_norm", x.rows(), x.columns());
  if (x.shape.elements() == 0) return;
  select_device(x.device);
  launch_norm({.x = rows_in(x),
               .out = rows_out("layer_norm", out),
               .weight = {},
               .mod_scale = vector_in(mod_scale),
               .eps = eps,
               .center = true,
               .rows = x.rows(),
               .columns = int(x.columns()),
               .inverse_columns = 1.0f / float(x.columns())},
              x.device.index, stream_of(ctx));
}

void gated_residual_norm_cuda(ExecContext& ctx, const TensorView& residual, const TensorView& y, const TensorView& mod_gate, const NormArgs& post,
                              const NormArgs& next, const std::optional<RowOutput>& out) {
  check_kernel_range("gated_residual_norm", residual.rows(), residual.columns());
  if (residual.shape.elements() == 0) return;
  GatedResidualLaunch launch{
      .residual = rows_in(residual), .y = rows_in(y), .mod_gate = vector_in(mod_gate), .post_weight = vector_in(post.weight), .post_eps = post.eps};
  launch.rows = residual.rows();
  launch.columns = int(residual.columns());
  launch.inverse_columns = 1.0f / float(launch.columns);
  if (out) {
    launch.has_out = true;
    launch.out = rows_out("gated_residual_norm", *out);
    launch.next_weight = vector_in(next.weight);
    launch.next_mod_scale = vector_in(next.mod_scale);
    launch.next_eps = next.eps;
  }
  select_device(residual.device);
  launch_gated_residual_norm(launch, residual.device.index, stream_of(ctx));
}

void add_rows_cuda(ExecContext& ctx, const TensorView& x, const TensorView& y) {
  check_kernel_range("add_rows", x.rows(), x.columns());
  if (x.shape.elements() == 0) return;
  select_device(x.device);
  launch_add_rows({.x = rows_in(x), .y = rows_in(y), .rows = x.rows(), .columns = int(x.columns())}, stream_of(ctx));
}

}  // namespace octavo
