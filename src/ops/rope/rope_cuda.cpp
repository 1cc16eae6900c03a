#include "device/cuda_check.h"
#include "ops/rope/rope_backend.h"
#include "ops/rope/rope_launch.h"
#include "ops/row_launch.h"

namespace octavo {

void head_norm_rope_cuda(ExecContext& ctx, const TensorView& x, int heads, const TensorView& weight, float eps, const TensorView& cos, const TensorView& sin) {
  check_kernel_range("head_norm_rope", x.rows() * heads, x.columns());
  if (x.shape.elements() == 0) return;
  cuda_check(cudaSetDevice(x.device.index), "head_norm_rope: select device");
  launch_head_norm_rope({.x = rows_in(x),
                         .weight = weight.data,
                         .weight_type = row_type(weight.dtype),
                         .cos = cos.as<const float>(),
                         .sin = sin.as<const float>(),
                         .table_stride = cos.row_stride,
                         .eps = eps,
                         .rows = x.rows(),
                         .heads = heads,
                         .head_dim = int(x.columns() / heads)},
                        stream_of(ctx));
}

}  // namespace octavo
