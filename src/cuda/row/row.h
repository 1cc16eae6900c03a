// A row op's view of rows: where they lie, in which type, and how a CTA shares one. Plain data, both sides.
#pragma once

#include <cstdint>

#include "cuda/host_device.h"

namespace octavo::cuda {

enum class RowType : std::uint8_t { f32, bf16, f16 };

// Rows to read (or to update in place).
struct RowsIn {
  void* data = nullptr;
  std::int64_t stride = 0;  // elements between rows
  RowType type = RowType::f32;
};

// Rows to write: floats of `type`, or s8 codes with one scale per row (scale != null) after a rotation by group, 0 for none.
struct RowsOut {
  void* data = nullptr;
  std::int64_t stride = 0;
  RowType type = RowType::f32;
  float* scale = nullptr;
  int rotation_group = 0;
  float rotation_unit = 1;  // sqrt(rotation_group), by which rotate4() leaves its results too large; 1 for none
};

OCTAVO_HOST_DEVICE int bytes_of(RowType type) { return type == RowType::f32 ? 4 : 2; }

// How a CTA shares a row. A warp owns segments of 512 values, 16 in each lane, all in registers.
inline constexpr int kWarpLanes = 32;
inline constexpr int kSegment = 512;
inline constexpr int kLaneValues = 16;
inline constexpr int kMaxFastGroup = 256;  // a rotation group within half a segment: it never leaves its warp

struct RowPlan {
  int segments_per_warp = 0;  // 1 or 3; 0: the row does not fit, or is misaligned: the general kernel reads it several times
  int warps = 0;
};

inline constexpr int kMaxRowWarps = 12;  // rows of up to 18432

// What a warp does once a row (reductions, quotients, addresses) costs as much as a segment's values, so long rows go three segments a warp:
// 4608 is 3 warps, 12288 is 8. Short ones keep their warps.
inline RowPlan plan_row(std::int64_t columns) {
  const std::int64_t segments = (columns + kSegment - 1) / kSegment;
  if (columns <= 0 || columns % kLaneValues != 0 || segments > 3 * kMaxRowWarps) return {};
  return segments <= 4 ? RowPlan{1, int(segments)} : RowPlan{3, int((segments + 2) / 3)};
}

inline bool is_aligned_16(const void* data, std::int64_t stride_bytes) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride_bytes % 16 == 0; }
inline bool is_aligned(const RowsIn& rows) { return is_aligned_16(rows.data, rows.stride * bytes_of(rows.type)); }
inline bool is_aligned(const RowsOut& rows) { return is_aligned_16(rows.data, rows.stride * (rows.scale != nullptr ? 1 : bytes_of(rows.type))); }

// Where value k of a row lies in shared memory, so that lanes reading 8 or 16 neighbouring values as 16-byte words
// meet eight different bank groups in each quarter warp: the 16-byte chunk k/4 is XORed with bits 5 and 6 of k.
OCTAVO_HOST_DEVICE int swizzle_word(int k) { return k ^ (((k >> 5) & 3) << 2); }

}  // namespace octavo::cuda
