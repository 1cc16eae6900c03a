// A warp's private 1 KiB of shared memory, through which sums leave in whole 32-byte sectors: two slots of 512 bytes, or one of 1 KiB.
// Offsets only, so that a unit test can count bank conflicts. Lane l holds of an n8 block j: row g = l / 4, columns 2t, 2t+1, t = l % 4.
#pragma once

#include "cuda/host_device.h"

namespace octavo::device {

inline constexpr int kSlabBytes = 1024;
inline constexpr int kSlotBytes = 512;

// 16-bit results, 8 rows × 32 columns, 64-byte rows, 4 bytes written per lane:  chunk j lies at j ^ (row / 2 % 4).
OCTAVO_HOST_DEVICE constexpr int slab16_write(int row, int block, int t) { return row * 64 + ((block ^ ((row >> 1) & 3)) * 16) + t * 4; }
// 16 bytes read per lane: row lane / 4, columns 8·(lane % 4) … +8.
OCTAVO_HOST_DEVICE constexpr int slab16_read(int lane) { return (lane >> 2) * 64 + (((lane & 3) ^ ((lane >> 3) & 3)) * 16); }

// 16-bit silu(gate)·up, 16 rows × 16 columns, 32-byte rows, four rows to a 128-byte line. After an exchange between neighbours,
// even t holds row g and odd t row g + 8, columns 4·block + {0, 1} (t < 2) or {2, 3}. The line number moves chunks and halves of chunks apart.
OCTAVO_HOST_DEVICE constexpr int slab_silu_write(int row, int block, int t) {
  const int line = row >> 2;
  const int chunk = (((row & 3) << 1) | (block >> 1)) ^ (line & 1);
  const int word = (((block & 1) << 1) | (t >> 1)) ^ ((line >> 1) << 1);
  return line * 128 + chunk * 16 + word * 4;
}
// 16 bytes read per lane: row lane / 2, columns 8·(lane % 2) … +8. From lane 16 on the two halves of the chunk are swapped.
OCTAVO_HOST_DEVICE constexpr int slab_silu_read(int lane) {
  const int row = lane >> 1;
  return (row >> 2) * 128 + (((((row & 3) << 1) | (lane & 1)) ^ ((row >> 2) & 1)) * 16);
}

// Bare int32 sums, 8 rows × 32 columns, 128-byte rows, 8 bytes written per lane:  chunk 2·block + t/2 lies at chunk ^ 2·(row % 4).
OCTAVO_HOST_DEVICE constexpr int slab32_write(int row, int block, int t) {
  return row * 128 + (((2 * block + (t >> 1)) ^ ((row & 3) << 1)) * 16) + (t & 1) * 8;
}
// 16 bytes read per lane: row 4·half + lane / 8, columns 4·(lane % 8) … +4.
OCTAVO_HOST_DEVICE constexpr int slab32_read(int lane, int half) {
  const int row = half * 4 + (lane >> 3);
  return row * 128 + (((lane & 7) ^ ((row & 3) << 1)) * 16);
}

}  // namespace octavo::device
