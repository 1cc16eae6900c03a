// How many CTAs walk over the rows when each keeps parameters in shared memory.
#pragma once

#include <cstdint>

#include "cuda/row/rotation.h"

namespace octavo::walk {

// What a block of `device` may have: 64 KB on sm_75, 99 KB on sm_86, 89 and 120, 227 KB on sm_90. A row whose parameters need
// more takes the general kernel.
int max_shared_bytes(int device);

// `vectors` parameter vectors of float32 [columns], and an exchange buffer a warp when rotating.
inline int shared_bytes(int vectors, int columns, int warps, int rotation_group) {
  const int words = (columns + 127) / 128 * 128;
  return int(sizeof(float)) * (vectors * words + (rotation_group == 0 ? 0 : warps * cuda::kExchangeWords));
}

// Fills the GPU once, and no more than evens out the last round: 4096 rows over 396 CTAs would be 11 for some and 10 for
// others, so 373 take 11 each.
std::int64_t ctas(const void* kernel, int device, int threads, int shared, std::int64_t rows);

}  // namespace octavo::walk
