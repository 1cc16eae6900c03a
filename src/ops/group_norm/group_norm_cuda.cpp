#include "device/cuda_check.h"
#include "ops/group_norm/group_norm_backend.h"
#include "ops/group_norm/group_norm_launch.h"
#include "ops/row_launch.h"

namespace octavo {
namespace {

GroupNormLaunch launch_of(const TensorView& x, const GroupNormArgs& args, const TensorView& statistics) {
  check_kernel_range("group_norm", x.rows(), x.columns());
  cuda_check(cudaSetDevice(x.device.index), "group_norm: select device");
  GroupNormLaunch launch{.x = x.data, .x_type = row_type(x.dtype)};
  launch.pixels = x.rows();
  launch.channels = int(x.columns());
  launch.groups = args.groups;
  launch.eps = args.eps;
  launch.silu = args.silu;
  launch.statistics = statistics.as<float>();
  return launch;
}

}  // namespace

void group_norm_statistics_cuda(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& statistics) {
  if (x.shape.elements() == 0) return;
  const ArenaScope scope(*ctx.scratch);
  GroupNormLaunch launch = launch_of(x, args, statistics);
  launch.partial = static_cast<double*>(ctx.scratch->take(std::size_t(group_norm_partial_bytes(args.groups)), "sums of group_norm"));
  launch_group_norm_statistics(launch, stream_of(ctx));
}

void group_norm_apply_cuda(ExecContext& ctx, const TensorView& x, const GroupNormArgs& args, const TensorView& statistics, const TensorView& y) {
  if (x.shape.elements() == 0) return;
  GroupNormLaunch launch = launch_of(x, args, statistics);
  launch.y = y.data;
  launch.y_type = row_type(y.dtype);
  launch.weight = args.weight.data;
  launch.bias = args.bias.data;
  launch.weight_type = row_type(args.weight.dtype);
  launch.bias_type = row_type(args.bias.dtype);
  launch_group_norm_apply(launch, stream_of(ctx));
}

}  // namespace octavo
