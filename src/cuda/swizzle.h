// Where a 16-byte chunk of a tile row lies in shared memory, so that neither 8-row ldmatrix phases nor row-wise copies meet a bank twice.
#pragma once

#include "cuda/host_device.h"

namespace octavo::cuda {

inline constexpr int kChunkBytes = 16;  // what one cp.async copies and one ldmatrix row reads
inline constexpr int kBankBytes = 128;  // 32 banks of 4 bytes

// Physical chunk of logical `chunk` in `row`; rows are kRowBytes = 64, 128, 256, … long and lie densely.
//   64-byte rows: two rows share the 128 bytes of all banks, so the row pair counts:  chunk ^ (row / 2 % 4)
//   longer rows:  every row starts at bank 0:                                         chunk ^ (row % 8)
template <int kRowBytes>
OCTAVO_HOST_DEVICE constexpr int swizzled_chunk(int row, int chunk) {
  static_assert(kRowBytes >= 64 && kRowBytes % 64 == 0, "rows are whole half-bank-lines");
  if constexpr (kRowBytes == 64) return chunk ^ ((row >> 1) & 3);
  return chunk ^ (row & 7);
}

// Byte offset of a chunk within a tile.
template <int kRowBytes>
OCTAVO_HOST_DEVICE constexpr int swizzled_offset(int row, int chunk) {
  return row * kRowBytes + swizzled_chunk<kRowBytes>(row, chunk) * kChunkBytes;
}

// The same for rows of w in the order of b_lane_row: a phase reads rows 8·i + {0, 1} plus a constant, i = 0 … 3.
//   64-byte rows: chunk ^ i;  longer ones: chunk ^ (2·i + row % 2)
template <int kRowBytes>
OCTAVO_HOST_DEVICE constexpr int w_swizzle(int row) {
  if constexpr (kRowBytes == 64) return (row >> 3) & 3;
  return ((row >> 3) & 3) * 2 + (row & 1);
}

template <int kRowBytes>
OCTAVO_HOST_DEVICE constexpr int w_swizzled_offset(int row, int chunk) {
  return row * kRowBytes + (chunk ^ w_swizzle<kRowBytes>(row)) * kChunkBytes;
}

}  // namespace octavo::cuda
