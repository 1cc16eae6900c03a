#include "device/cuda_check.h"
#include "ops/group_norm/group_norm_backend.h"
#include "ops/group_norm/group_norm_launch.h"
#include "ops/row_launch.h"

namespace octavo {

void group_norm_cuda(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& y) {
  check_kernel_range("group_norm", x.rows(), x.columns());
  if (x.shape.elements() == 0) return;
  cuda_check(cudaSetDevice(x.device.index), "group_norm: select device");
  const ArenaScope scope(*ctx.scratch);
  GroupNormLaunch launch{.x = x.data, .y = y.data, .x_type = row_type(x.dtype), .y_type = row_type(y.dtype)};
  launch.weight = args.weight.data;
  launch.bias = args.bias.data;
  launch.weight_type = row_type(args.weight.dtype);
  launch.bias_type = row_type(args.bias.dtype);
  launch.pixels = x.rows();
  launch.channels = int(x.columns());
  launch.groups = args.groups;
  launch.eps = args.eps;
  launch.silu = args.silu;
  launch.partial = static_cast<double*>(ctx.scratch->take(std::size_t(group_norm_scratch_bytes(args.groups)), "sums of group_norm"));
  launch.statistics = reinterpret_cast<float*>(launch.partial + std::int64_t(kGroupNormChunks) * args.groups * 2);
  launch_group_norm(launch, stream_of(ctx));
}

}  // namespace octavo
