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
  if (launch.factor != 1.0f) v *= launch.factor;
  if (launch.residual.data != nullptr) v += cuda::load_one(launch.residual.data, launch.residual.type, m * launch.residual.stride + n);
  return v;
}

// Finishes and stores columns n to n + 3 of row m, as many of them as there are.
__device__ __forceinline__ void finish_four(const FloatLinearLaunch& launch, std::int64_t m, std::int64_t n, const float4& sum) {
  float v[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (n + i < launch.n) v[i] = finish_float(launch, m, n + i, v[i]);
  }
  void* const to = cuda::at(launch.y, m, n);
  if (n + 3 < launch.n && reinterpret_cast<std::uintptr_t>(to) % std::uintptr_t(4 * cuda::bytes_of(launch.y.type)) == 0) {
    if (launch.y.type == cuda::RowType::f32) {
      *static_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
    } else if (launch.y.type == cuda::RowType::bf16) {
      *static_cast<uint2*>(to) = make_uint2(cuda::pack_bf16x2(v[0], v[1]), cuda::pack_bf16x2(v[2], v[3]));
    } else {
      *static_cast<uint2*>(to) = make_uint2(cuda::pack_f16x2(v[0], v[1]), cuda::pack_f16x2(v[2], v[3]));
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (n + i < launch.n) cuda::store_one(to, launch.y.type, i, v[i]);
  }
}

}  // namespace octavo::device
