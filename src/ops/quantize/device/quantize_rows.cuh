// q[m,k] = rint(x[m,k] · 127 / absmax(m)),  scale[m] = absmax(m) / 127, after an optional rotation.     numerics.md sections 3, 6
//
// A CTA walks over rows (row, row + CTAs, …), one in registers from its one read to its one write, the next one's loads in flight:
// 3 bytes of traffic a value for bf16. Each warp owns one or two segments of 512 values; a rotation group of up to 256 never leaves it.
// Shared memory: reduction scratch (256 B), and 2112 B a warp when rotating.
#pragma once

#include "cuda/row/general.cuh"
#include "cuda/row/quantize.cuh"
#include "ops/quantize/quantize_launch.h"

namespace octavo::device {

// CTAs that must fit an SM: as many as registers allow without spilling.
template <cuda::RowType Type, int Segments, cuda::RowMode Mode>
inline constexpr int kQuantizeCtasPerSm =
    cuda::ctas_per_sm(cuda::at_least_one(4 - Segments - (Type == cuda::RowType::f32 && Mode == cuda::RowMode::rotated_codes ? 1 : 0)));

template <cuda::RowType Type, int Segments, cuda::RowMode Mode>
__global__ void __launch_bounds__(cuda::kMaxRowThreads, kQuantizeCtasPerSm<Type, Segments, Mode>) quantize_rows_kernel(QuantizeLaunch launch) {
  constexpr cuda::LaneOrder kOrder = cuda::LaneOrder::adjacent;
  extern __shared__ float4 exchange[];
  __shared__ cuda::ReduceScratch scratch;
  cuda::RowReducer reducer(scratch);
  float* words = reinterpret_cast<float*>(exchange) + std::int64_t(threadIdx.x / cuda::kWarpLanes) * cuda::kExchangeWords;
  const int columns = launch.columns;
  std::int64_t row = blockIdx.x;
  cuda::Raw8<Type> raw[Segments][2];
  cuda::load_row<Type, kOrder>(raw, launch.x, row, columns);
  while (true) {
    float v[Segments][cuda::kLaneValues];
    cuda::unpack_row<Type>(raw, v);
    const std::int64_t next = row + gridDim.x;
    if (next < launch.rows) cuda::load_row<Type, kOrder>(raw, launch.x, next, columns);

    float unit = 1;
    if constexpr (Mode == cuda::RowMode::rotated_codes) {
      cuda::rotate_row<kOrder>(v, launch.out.rotation_group, words);
      unit = 1.0f / launch.out.rotation_unit;
    }
    std::uint32_t absmax = cuda::absmax_of(v, reducer);
    if constexpr (Mode == cuda::RowMode::rotated_codes) {
      if (absmax >= cuda::kInfinityBits) {
        // A fault in the row, or values so large that the rotation without its halves overflowed. Smaller by 2^-8 they do not.
        constexpr float kSmaller = 1.0f / 256;
        cuda::Raw8<Type> again[Segments][2];
        cuda::load_row<Type, kOrder>(again, launch.x, row, columns);
        cuda::unpack_row<Type>(again, v);
#pragma unroll
        for (int s = 0; s < Segments; ++s) {
#pragma unroll
          for (int i = 0; i < cuda::kLaneValues; ++i) v[s][i] *= kSmaller;
        }
        cuda::rotate_row<kOrder>(v, launch.out.rotation_group, words);
        absmax = cuda::absmax_of(v, reducer);
        unit /= kSmaller;
      }
    }
    cuda::store_codes<Mode, kOrder>(v, absmax, unit, launch.out, row, columns, words);
    if (next >= launch.rows) return;
    row = next;
  }
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
