// A vector of parameters in shared memory, one a column, that every row of a CTA meets.
#pragma once

#include "cuda/row/quantize.cuh"

namespace octavo::cuda {

// v[i] = use(v[i], parameter) over the 16 values of a lane in segment `s` of its warp, four parameters a load.
// The addresses are swizzle_word(k) (cuda/row/row.h), written so that the lane's share is computed once: `flip` is bits 5 and 6 of k.
template <LaneOrder Order, class Use>
__device__ __forceinline__ void with_parameters(const float* parameters, int first_segment, int s, int lane, float (&v)[kLaneValues], const Use& use) {
  constexpr bool kAdjacent = Order == LaneOrder::adjacent;
  const int flip = kAdjacent ? ((lane >> 1) & 3) << 2 : ((lane >> 2) & 3) << 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
      const int from_lane = kAdjacent ? kLaneValues * lane + ((8 * half + i) ^ flip) : (8 * lane + i) ^ flip;
      const float4 four = *reinterpret_cast<const float4*>(parameters + first_segment + from_lane + kSegment * s + (kAdjacent ? 0 : kSegment / 2 * half));
      float* to = v + 8 * half + i;
      to[0] = use(to[0], four.x);
      to[1] = use(to[1], four.y);
      to[2] = use(to[2], four.z);
      to[3] = use(to[3], four.w);
    }
  }
}

}  // namespace octavo::cuda
