// ConvRot inside a warp (numerics.md section 6): 512 values, 16 in each lane, groups of 4, 16, 64 or 256.
//
//   before          lane l holds values 16 l … 16 l + 15: index bits 0-3 in registers        parts of stride 1 and 4
//   exchange        through 2 KiB of the warp's own shared memory: 4 16-byte stores, 16 word loads a lane, no bank conflict
//   after           lane l holds (l mod 16) + 16 r + 256 (l / 16), r = 0 … 15: bits 4-7     parts of stride 16 and 64
//
// Shuffling the same values would take 2.5 shuffles and 7.5 selects a value; the exchange takes 1.25 instructions.
#pragma once

#include "cuda/row/reduce.cuh"
#include "cuda/row/rotation.h"

namespace octavo::cuda {

// From the order "before" to the order "after".
__device__ __forceinline__ void exchange(float (&v)[kLaneValues], float* words, int lane) {
#pragma unroll
  for (int i = 0; i < kLaneValues; i += 4) *reinterpret_cast<float4*>(words + exchange_store_word(lane, i)) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
  __syncwarp();
#pragma unroll
  for (int r = 0; r < kLaneValues; ++r) v[r] = words[exchange_load_word(lane, r)];
  __syncwarp();
}

// Rotates a warp's segment; the results are sqrt(group) too large. Comes in "before", leaves in "after". `words`: kExchangeWords floats of this warp alone.
__device__ __forceinline__ void rotate_segment(float (&v)[kLaneValues], int group, float* words, int lane) {
  rotate_registers<1>(v);
  if (group >= 16) rotate_registers<4>(v);
  exchange(v, words, lane);
  if (group >= 64) rotate_registers<1>(v);
  if (group >= 256) rotate_registers<4>(v);
}

// From "8 at 8 l, 8 at 256 + 8 l" (what coalesced 16-byte stores of a bf16 stream want) to "before": lane pairs swap eight values.
__device__ __forceinline__ void gather_neighbours(float (&v)[kLaneValues], float* words, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
      *reinterpret_cast<float4*>(words + exchange_word(256 * half + 8 * lane + i)) =
          make_float4(v[8 * half + i], v[8 * half + i + 1], v[8 * half + i + 2], v[8 * half + i + 3]);
    }
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kLaneValues; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(words + exchange_word(kLaneValues * lane + i));
    v[i] = four.x;
    v[i + 1] = four.y;
    v[i + 2] = four.z;
    v[i + 3] = four.w;
  }
  __syncwarp();
}

}  // namespace octavo::cuda
