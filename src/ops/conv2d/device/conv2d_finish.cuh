// The end of a convolution's sum: bias, residual, store.
#pragma once

#include "cuda/row/values.cuh"
#include "ops/conv2d/conv2d_launch.h"

namespace octavo::device {

__device__ __forceinline__ void finish_conv2d(const Conv2dLaunch& launch, std::int64_t pixel, int channel, float v) {
  const std::int64_t at = pixel * launch.out_channels + channel;
  if (launch.x_scale != nullptr) v *= *launch.x_scale;
  if (launch.bias != nullptr) v += cuda::load_one(launch.bias, launch.bias_type, channel);
  if (launch.residual != nullptr) v += cuda::load_one(launch.residual, launch.residual_type, at);
  cuda::store_one(launch.y, launch.y_type, at, v);
}

}  // namespace octavo::device
