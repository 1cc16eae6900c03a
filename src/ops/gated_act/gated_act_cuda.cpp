#include "device/cuda_check.h"
#include "ops/gated_act/gated_act_backend.h"
#include "ops/gated_act/gated_act_launch.h"
#include "ops/row_launch.h"

namespace octavo {

void silu_mul_cuda(ExecContext& ctx, const TensorView& act_gate, const TensorView& up, const RowOutput& out) {
  check_kernel_range("silu_mul", up.rows(), up.columns());
  if (up.shape.elements() == 0) return;
  cuda_check(cudaSetDevice(up.device.index), "silu_mul: select device");
  launch_silu_mul({.act_gate = rows_in(act_gate), .up = rows_in(up), .out = rows_out("silu_mul", out), .rows = up.rows(), .columns = int(up.columns())},
                  up.device.index, stream_of(ctx));
}

void silu_cuda(ExecContext& ctx, const TensorView& x) {
  check_kernel_range("silu", x.rows(), x.columns());
  if (x.shape.elements() == 0) return;
  cuda_check(cudaSetDevice(x.device.index), "silu: select device");
  launch_silu({.x = rows_in(x), .rows = x.rows(), .columns = int(x.columns())}, stream_of(ctx));
}

}  // namespace octavo
