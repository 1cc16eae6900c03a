// The arithmetic and the addresses of a rotated segment, both sides: rotate.cuh runs them, a unit test replays them lane by lane.
#pragma once

#include "cuda/row/row.h"

namespace octavo::cuda {

// One radix-4 step of the definition, each result 1/2 (((a ± b) ± c) ± d), without its half: ten sums. Halving commutes with rounding, so
// the halves of all parts are one power of two, 1/sqrt(group), that a caller folds into a factor it has anyway, before or after. The
// same bits, as long as no value comes within sqrt(group) of the largest float32 or of the subnormal ones.
OCTAVO_HOST_DEVICE void rotate4(float& a, float& b, float& c, float& d) {
  const float sum = a + b;
  const float difference = a - b;
  const float s0 = sum + c;
  const float s1 = sum - c;
  const float s2 = difference + c;
  const float s3 = c - difference;
  a = s0 - d;
  b = s1 + d;
  c = s2 + d;
  d = s3 + d;
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
