// The arithmetic and the addresses of a rotated segment, both sides: rotate.cuh runs them, a unit test replays them lane by lane.
#pragma once

#include <cmath>

#include "cuda/row/row.h"

namespace octavo::cuda {

// One radix-4 step, each result 1/2 (((a ± b) ± c) ± d) as four float32 operations.
// The half is folded into the last sum: fma(s, 1/2, d/2) rounds once, and halving commutes with rounding
// (unless a value lies within four bits of the smallest or largest float32).
OCTAVO_HOST_DEVICE void rotate4(float& a, float& b, float& c, float& d) {
  const float sum = a + b;
  const float difference = a - b;
  const float half_d = 0.5f * d;
  const float s0 = sum + c;
  const float s1 = sum - c;
  const float s2 = difference + c;
  const float s3 = c - difference;
  a = fmaf(s0, 0.5f, -half_d);
  b = fmaf(s1, 0.5f, half_d);
  c = fmaf(s2, 0.5f, half_d);
  d = fmaf(s3, 0.5f, half_d);
}

// Steps over register indices that differ by Stride.
template <int Stride>
OCTAVO_HOST_DEVICE void rotate_registers(float (&v)[kLaneValues]) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int i = 0; i < kLaneValues; ++i) {
    if ((i / Stride) % 4 == 0) rotate4(v[i], v[i + Stride], v[i + 2 * Stride], v[i + 3 * Stride]);
  }
}

// Float words of shared memory for one warp's exchange: 512 values and a gap of 16 after the 256th, because half a warp reads
// around k while the other half reads around k + 256, which must be other banks.
inline constexpr int kExchangeWords = kSegment + 16;
OCTAVO_HOST_DEVICE int exchange_word(int k) { return swizzle_word(k) + ((k >> 8) << 4); }

// exchange_word(16 lane + i), i = 0, 4, 8, 12, written so that the lane's share is computed once; and where register r of a lane
// comes from: exchange_word(k) of k = rotated_index(lane, r).
OCTAVO_HOST_DEVICE int exchange_store_word(int lane, int i) { return kLaneValues * (lane + (lane >> 4)) + (i ^ (((lane >> 1) & 3) << 2)); }
OCTAVO_HOST_DEVICE int exchange_load_word(int lane, int r) { return (((lane & 15) + (256 + 16) * (lane >> 4)) ^ (((r >> 1) & 3) << 2)) + 16 * r; }
OCTAVO_HOST_DEVICE int rotated_index(int lane, int r) { return (lane & 15) + 16 * r + 256 * (lane >> 4); }

// Bytes of the code staging: 16 more after the 256th code, for the same reason.
OCTAVO_HOST_DEVICE int exchange_byte(int k) { return k + ((k >> 8) << 4); }

}  // namespace octavo::cuda
