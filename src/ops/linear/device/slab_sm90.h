// Where a warp of the Hopper kernel keeps 16 rows on their way from fragments to memory. Plain C++: a CPU test checks the banks.
#pragma once

#include "cuda/host_device.h"

namespace octavo::sm90 {

inline constexpr int kSlabRows = 16;
inline constexpr int kSlabBytes = 2048;  // 16 rows × 64 columns of 16 bits, or × 32 of 32 bits

// Byte offset of a 16-byte chunk in a direct slab of kColumns 16-bit columns: 128-byte rows (8 rows rotate), 64-byte rows (4 pairs of rows rotate) or
// 32-byte rows (2 fours of rows rotate).
// stmatrix writes one chunk of 8 rows at a time, a store reads whole rows: all 32 banks, once, both ways.
template <int kColumns>
OCTAVO_HOST_DEVICE constexpr int direct_slab_offset(int row, int chunk) {
  static_assert(kColumns == 64 || kColumns == 32 || kColumns == 16);
  return kColumns == 64   ? row * 128 + ((chunk ^ (row & 7)) << 4)
         : kColumns == 32 ? row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4)
                          : row * 32 + ((chunk ^ ((row >> 2) & 1)) << 4);
}

// Byte offset of a 16-byte chunk in a general slab of 32 int32 columns. Half a warp writes 4 rows × 2 chunks; reads run along rows: no conflict.
OCTAVO_HOST_DEVICE constexpr int general_slab_offset(int row, int chunk) { return row * 128 + ((chunk ^ (2 * (row & 3))) << 4); }

}  // namespace octavo::sm90
