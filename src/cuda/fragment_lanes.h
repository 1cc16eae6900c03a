// Which row and which 16 bytes a lane names to ldmatrix.x4, so that the four results are mma's s8 operands.
#pragma once

#include "cuda/host_device.h"

namespace octavo::cuda {

// a of m16n8k32: lanes 0…15 rows 0…15 of the first 16 bytes of K, lanes 16…31 of the second. Results: a0 … a3.
OCTAVO_HOST_DEVICE constexpr int a_lane_row(int lane) { return lane & 15; }
OCTAVO_HOST_DEVICE constexpr int a_lane_chunk(int lane) { return lane >> 4; }

// b of two neighbouring n8 blocks, rows of w: lanes 0…7 rows 0…7 of the first 16 bytes, 8…15 of the second; 16…31 the same of rows 8…15.
// Results: b0, b1 of the first block, b0, b1 of the second.
OCTAVO_HOST_DEVICE constexpr int b_lane_row(int lane) { return (lane & 7) + ((lane >> 4) << 3); }
OCTAVO_HOST_DEVICE constexpr int b_lane_chunk(int lane) { return (lane >> 3) & 1; }

}  // namespace octavo::cuda
