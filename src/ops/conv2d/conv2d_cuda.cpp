// conv2d on a GPU: implicit GEMM on the tensor cores where it takes the tensors, else one thread an output.
#include <fmt/format.h>

#include "base/log.h"
#include "device/cuda_check.h"
#include "ops/conv2d/conv2d_backend.h"
#include "ops/conv2d/conv2d_launch.h"
#include "ops/op_timer.h"
#include "ops/row_launch.h"

namespace octavo {
namespace {

// x wider than float16 w: replaces it by a float16 copy in scratch. Says false, and changes nothing, where the tensor cores would not take that.
bool in_float16(ExecContext& ctx, Conv2dLaunch& launch, int sm) {
  if (launch.w_type != cuda::RowType::f16 || launch.x_type == cuda::RowType::f16) return false;
  Conv2dLaunch narrow = launch;
  narrow.x = ctx.scratch->take(std::size_t(launch.height) * launch.width * launch.channels * sizeof(std::uint16_t), "x in float16");
  narrow.x_type = cuda::RowType::f16;
  if (!fits_conv2d_mma(narrow, sm)) return false;
  auto* words = static_cast<float*>(ctx.scratch->take(2 * sizeof(float), "scale of x in float16"));
  launch_conv2d_narrow(launch, const_cast<void*>(narrow.x), words, stream_of(ctx));
  narrow.x_scale = words;
  launch = narrow;
  return true;
}

}  // namespace

void conv2d_cuda(ExecContext& ctx, const TensorView& x, const ConvWeights& w, const ConvArgs& args, const std::optional<TensorView>& residual,
                 const TensorView& y) {
  check_kernel_range("conv2d", x.shape[0] * x.shape[1], x.shape[2]);
  check_kernel_range("conv2d", y.shape[0] * y.shape[1], y.shape[2]);
  if (y.shape.elements() == 0) return;
  Conv2dLaunch launch{
      .x = x.data, .w = w.weight.data, .y = y.data, .x_type = row_type(x.dtype), .w_type = row_type(w.weight.dtype), .y_type = row_type(y.dtype)};
  if (w.bias) {
    launch.bias = w.bias->data;
    launch.bias_type = row_type(w.bias->dtype);
  }
  if (residual) {
    launch.residual = residual->data;
    launch.residual_type = row_type(residual->dtype);
  }
  launch.height = int(x.shape[0]);
  launch.width = int(x.shape[1]);
  launch.channels = int(x.shape[2]);
  launch.out_height = int(y.shape[0]);
  launch.out_width = int(y.shape[1]);
  launch.out_channels = int(y.shape[2]);
  launch.kernel_h = int(w.weight.shape[1]);
  launch.kernel_w = int(w.weight.shape[2]);
  launch.stride = args.stride;
  launch.pad_top = args.pad_top;
  launch.pad_left = args.pad_left;
  launch.enlarge_bits = args.upsample_nearest_2x ? 1 : 0;
  cuda_check(cudaSetDevice(x.device.index), "conv2d: select device");
  const int sm = caps_of(x.device).sm;
  const ArenaScope scope(*ctx.scratch);
  const bool is_narrowed = in_float16(ctx, launch, sm);
  const bool is_mma = is_narrowed || fits_conv2d_mma(launch, sm);
  if (log::enabled(log::Level::debug, "dispatch")) {
    log::debug("dispatch", "conv2d '{}': {} {} to {} {}: {}", w.name, name_of(x.dtype), x.shape.text(), name_of(y.dtype), y.shape.text(),
               is_narrowed ? "implicit GEMM, mma.sync, x in float16"
               : is_mma    ? "implicit GEMM, mma.sync"
                           : "plain (no tensor cores: needs 16-bit floats of one type, channels in eights, sm_80, fp16 sm_75)");
  }
  note_kernel(ctx, is_narrowed ? "mma.sync, x in float16" : is_mma ? "mma.sync" : "plain");
  is_mma ? launch_conv2d_mma(launch, sm, stream_of(ctx)) : launch_conv2d_plain(launch, stream_of(ctx));
}

}  // namespace octavo
