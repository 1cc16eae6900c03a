// The epilogue of a float projection, in the order of ops/epilogue.h, a value at a time.
#pragma once

#include "cuda/row/values.cuh"
#include "ops/linear/float_launch.h"

namespace octavo::device {

__device__ __forceinline__ float finish_float(const FloatLinearLaunch& launch, std::int64_t m, std::int64_t n, float v) {
  if (launch.row_scale != nullptr) v *= launch.row_scale[m];
  if (launch.bias != nullptr) v += cuda::load_one(launch.bias, launch.bias_type, n);
  if (launch.silu) v = v / (1.0f + expf(-v));
  if (launch.mod_gate != nullptr) v *= launch.mod_gate[n];
  if (launch.residual.data != nullptr) v += cuda::load_one(launch.residual.data, launch.residual.type, m * launch.residual.stride + n);
  return v;
}

}  // namespace octavo::device
