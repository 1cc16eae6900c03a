// Convolution of any types: a thread an output, neighbours along the output channels. For the first and last layer, whose one side is float32.
#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/conv2d/device/conv2d_finish.cuh"

namespace octavo {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) conv2d_plain_kernel(const Conv2dLaunch launch) {
  const std::int64_t index = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= std::int64_t(launch.out_height) * launch.out_width * launch.out_channels) return;
  const std::int64_t pixel = index / launch.out_channels;
  const int channel = int(index % launch.out_channels);
  const int top = int(pixel / launch.out_width) * launch.stride - launch.pad_top, left = int(pixel % launch.out_width) * launch.stride - launch.pad_left;
  float sum = 0;
  for (int a = 0; a < launch.kernel_h; ++a) {
    for (int b = 0; b < launch.kernel_w; ++b) {
      const int y = top + a, x = left + b;
      if (y < 0 || x < 0 || y >= launch.height << launch.enlarge_bits || x >= launch.width << launch.enlarge_bits) continue;
      const std::int64_t from = (std::int64_t(y >> launch.enlarge_bits) * launch.width + (x >> launch.enlarge_bits)) * launch.channels;
      const std::int64_t tap = ((std::int64_t(channel) * launch.kernel_h + a) * launch.kernel_w + b) * launch.channels;
      for (int c = 0; c < launch.channels; ++c)
        sum = __fmaf_rn(cuda::load_one(launch.x, launch.x_type, from + c), cuda::load_one(launch.w, launch.w_type, tap + c), sum);
    }
  }
  device::finish_conv2d(launch, pixel, channel, sum);
}

}  // namespace

void launch_conv2d_plain(const Conv2dLaunch& launch, void* stream) {
  const std::int64_t outputs = std::int64_t(launch.out_height) * launch.out_width * launch.out_channels;
  cuda_check(cuda::launch_rows(&conv2d_plain_kernel, (outputs + kThreads - 1) / kThreads, kThreads, 0, stream, launch), "conv2d (plain)");
}

}  // namespace octavo
