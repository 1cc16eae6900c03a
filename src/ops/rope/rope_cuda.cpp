#include "device/cuda_check.h"
#include "ops/rope/rope_backend.h"
#include "ops/rope/rope_launch.h"
#include "ops/row_launch.h"

namespace octavo {

// Two parts a launch.
void head_norm_rope_cuda(ExecContext& ctx, const TensorView& x, std::initializer_list<HeadNorm> parts, float eps, const TensorView& cos,
                         const TensorView& sin) {
  if (x.shape.elements() == 0) return;
  cuda_check(cudaSetDevice(x.device.index), "head_norm_rope: select device");
  const std::int64_t head_dim = parts.begin()->weight.shape.elements();
  std::int64_t column = 0;
  for (const HeadNorm* part = parts.begin(); part != parts.end();) {
    const HeadNorm& one = *part++;
    const HeadNorm* two = part != parts.end() ? part++ : nullptr;
    const int heads = one.heads + (two != nullptr ? two->heads : 0);
    check_kernel_range("head_norm_rope", x.rows() * heads, x.columns());
    launch_head_norm_rope({.x = rows_in(x.column_range(column, heads * head_dim)),
                           .weight = {one.weight.data, two != nullptr ? two->weight.data : nullptr},
                           .weight_type = row_type(one.weight.dtype),
                           .cos = cos.as<const float>(),
                           .sin = sin.as<const float>(),
                           .table_stride = cos.row_stride,
                           .eps = eps,
                           .rows = x.rows(),
                           .heads = {one.heads, heads - one.heads},
                           .head_dim = int(head_dim)},
                          stream_of(ctx));
    column += heads * head_dim;
  }
}

}  // namespace octavo
