// What the norm kernels share: parameters in shared memory, the sum of squares, its inverse root.
#pragma once

#include "cuda/row/general.cuh"
#include "cuda/row/quantize.cuh"
#include "ops/norm_modulate/norm_launch.h"

namespace octavo::device {

__device__ __forceinline__ float vector_value(const VectorIn& vector, int k, float neutral) {
  return vector.data == nullptr ? neutral : cuda::load_one(vector.data, vector.type, k);
}

// v[i] = use(v[i], parameter) over the 16 values of a lane in segment `s` of its warp, four parameters a load.
// The addresses are swizzle_word(k) (cuda/row/row.h), written so that the lane's share is computed once: `flip` is bits 5 and 6 of k.
template <cuda::LaneOrder Order, class Use>
__device__ __forceinline__ void with_parameters(const float* parameters, int first_segment, int s, int lane, int columns, float (&v)[cuda::kLaneValues],
                                                const Use& use) {
  constexpr bool kAdjacent = Order == cuda::LaneOrder::adjacent;
  const int flip = kAdjacent ? ((lane >> 1) & 3) << 2 : ((lane >> 2) & 3) << 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (first_segment + cuda::kSegment * s + cuda::chunk_of<Order>(lane, half) >= columns) continue;  // the lane holds zeros, and there are no parameters
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
      const int from_lane = kAdjacent ? cuda::kLaneValues * lane + ((8 * half + i) ^ flip) : (8 * lane + i) ^ flip;
      const float4 four =
          *reinterpret_cast<const float4*>(parameters + first_segment + from_lane + cuda::kSegment * s + (kAdjacent ? 0 : cuda::kSegment / 2 * half));
      float* to = v + 8 * half + i;
      to[0] = use(to[0], four.x);
      to[1] = use(to[1], four.y);
      to[2] = use(to[2], four.z);
      to[3] = use(to[3], four.w);
    }
  }
}

// Copies K parameters to shared memory as float32, swizzled; use(value) on the way. Four a thread and turn, their loads in flight together.
template <class Use>
__device__ __forceinline__ void stage_vector(const VectorIn& vector, int columns, float neutral, float* to, const Use& use) {
#pragma unroll 4
  for (int k = int(threadIdx.x); k < columns; k += int(blockDim.x)) to[cuda::swizzle_word(k)] = use(vector_value(vector, k, neutral), k);
}

// Sum of (v - center)² over the row, zeros beyond the last column left out.
template <bool Centered, cuda::LaneOrder Order, int Segments>
__device__ __forceinline__ float sum_squares(const float (&v)[Segments][cuda::kLaneValues], float center, int first_segment, int lane, int columns,
                                             cuda::RowReducer& reducer) {
  float sum = 0;
#pragma unroll
  for (int s = 0; s < Segments; ++s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float part = 0;
#pragma unroll
      for (int i = 8 * half; i < 8 * half + 8; ++i) {
        const float distance = Centered ? v[s][i] - center : v[s][i];
        part = fmaf(distance, distance, part);
      }
      if (!Centered || first_segment + cuda::kSegment * s + cuda::chunk_of<Order>(lane, half) < columns) sum += part;
    }
  }
  return reducer.sum(sum);
}

// 1 / sqrt(mean + eps): the hardware's reciprocal root (2 ulp) and one Newton step, 1 ulp. A mean of infinity gives 0 and NaN stays
// NaN, as the quotient would.
__device__ __forceinline__ float inverse_deviation(float sum_of_squares, float inverse_columns, float eps) {
  const float mean = fmaf(sum_of_squares, inverse_columns, eps);
  const float root = rsqrtf(mean);
  const float error = fmaf(-mean * root, root, 1.0f);
  return mean < 1e37f && mean > 1e-37f ? fmaf(root * 0.5f, error, root) : root;
}

}  // namespace octavo::device
