// Shared memory of the kernels that walk over rows and keep parameters there.
#pragma once

#include <cstdint>

#include "cuda/row/rotation.h"

namespace octavo::walk {

// What a block may have: 64 KB on sm_75, 99 KB on sm_86, 89 and 120, 227 KB on sm_90. A row whose parameters need
// more takes the general kernel.
int max_shared_bytes(int device_index);

// `vectors` parameter vectors of float32 [columns], and an exchange buffer a warp when rotating.
inline int shared_bytes(int vectors, int columns, int warps, int rotation_group) {
  const int words = (columns + 127) / 128 * 128;
  return int(sizeof(float)) * (vectors * words + (rotation_group == 0 ? 0 : warps * cuda::kExchangeWords));
}

}  // namespace octavo::walk
