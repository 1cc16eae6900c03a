// Which row and which 16 bytes a lane names to ldmatrix.x4, so that the four results are mma's s8 operands.
#pragma once

#include "cuda/host_device.h"

namespace octavo::cuda {

// a of m16n8k32: lanes 0…15 rows 0…15 of the first 16 bytes of K, lanes 16…31 of the second. Results: a0 … a3.
OCTAVO_HOST_DEVICE constexpr int a_lane_row(int lane) { return lane & 15; }
OCTAVO_HOST_DEVICE constexpr int a_lane_chunk(int lane) { return lane >> 4; }

// b of two neighbouring n8 blocks, rows of w: lanes 0…7 columns 0…7 of the first block and first 16 bytes, 8…15 of the second 16; 16…31 the same of
// the second block. Results: b0, b1 of the first block, b0, b1 of the second.
// Which row of w a column stands for is free. Here column c of block j, in a group of four blocks, is row 8·(c / 2) + 2·j + c % 2 of the group's 32:
// then lane t of the four that hold a row of y has columns 8t … 8t + 7 of the group, 16 bytes of bf16, two of each block.
inline constexpr int kGroupRows = 32;
OCTAVO_HOST_DEVICE constexpr int b_lane_row(int lane) { return (lane & 7) / 2 * 8 + (lane >> 4) * 2 + (lane & 1); }
OCTAVO_HOST_DEVICE constexpr int b_lane_chunk(int lane) { return (lane >> 3) & 1; }
OCTAVO_HOST_DEVICE constexpr int b_pair_row(int pair) { return pair / 2 * kGroupRows + pair % 2 * 4; }  // added for blocks 2·pair, 2·pair + 1

}  // namespace octavo::cuda
