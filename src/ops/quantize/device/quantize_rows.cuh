// q[m,k] = rint(x[m,k] · 127 / absmax(m)),  scale[m] = absmax(m) / 127, after an optional rotation.     numerics.md sections 3, 6
//
// One CTA a row, the row in registers from the one read to the one write: 3 bytes of traffic a value for bf16.
// Each warp owns one or two segments of 512 values; a rotation group of up to 256 never leaves its warp.
// Shared memory: reduction scratch (256 B), and 2112 B a warp when rotating.
#pragma once

#include "cuda/row/general.cuh"
#include "cuda/row/quantize.cuh"
#include "ops/quantize/quantize_launch.h"

namespace octavo::device {

template <cuda::RowType Type, int Segments, cuda::RowMode Mode>
__global__ void __launch_bounds__(cuda::kMaxRowThreads, cuda::ctas_per_sm(Segments == 1 ? 4 : 3)) quantize_rows_kernel(QuantizeLaunch launch) {
  extern __shared__ float4 exchange[];
  __shared__ cuda::ReduceScratch scratch;
  cuda::RowReducer reducer(scratch);
  float* words = reinterpret_cast<float*>(exchange) + std::int64_t(threadIdx.x / cuda::kWarpLanes) * cuda::kExchangeWords;
  const std::int64_t row = blockIdx.x;

  cuda::Raw8<Type> raw[Segments][2];
  cuda::load_row<Type, cuda::LaneOrder::adjacent>(raw, launch.x, row, launch.columns);
  float v[Segments][cuda::kLaneValues];
  cuda::unpack_row<Type>(raw, v);
  cuda::store_row<Mode, cuda::LaneOrder::adjacent>(v, launch.out, row, launch.columns, reducer, words);
}

__global__ void __launch_bounds__(cuda::kGeneralThreads) quantize_rows_general_kernel(QuantizeLaunch launch) {
  extern __shared__ float4 exchange[];
  __shared__ cuda::ReduceScratch scratch;
  cuda::RowReducer reducer(scratch);
  const std::int64_t row = blockIdx.x;
  const auto value = [&](int k) { return cuda::load_one(launch.x.data, launch.x.type, row * launch.x.stride + k); };
  cuda::store_row_general(value, launch.out, row, launch.columns, reducer, reinterpret_cast<float*>(exchange));
}

}  // namespace octavo::device
