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
inline constexpr int kSegment = 512;
inline constexpr int kLaneValues = 16;
inline constexpr int kMaxFastGroup = 256;  // a rotation group within half a segment: it never leaves its warp

struct RowPlan {
  int segments_per_warp = 0;  // 1 or 2; 0: the row does not fit, or is misaligned: the general kernel reads it several times
  int warps = 0;
};

// Up to 12 warps, so that several CTAs fit an SM and one's loads hide another's barriers: rows of up to 12288.
inline constexpr int kMaxRowWarps = 12;
inline constexpr int kMaxRowThreads = kMaxRowWarps * 32;

OCTAVO_HOST_DEVICE constexpr int at_least_one(int count) { return count < 1 ? 1 : count; }

// CTAs of that size that should fit an SM, for __launch_bounds__: sm_75 holds 1024 threads.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
OCTAVO_HOST_DEVICE constexpr int ctas_per_sm(int wanted) { return wanted < 2 ? wanted : 2; }
#else
OCTAVO_HOST_DEVICE constexpr int ctas_per_sm(int wanted) { return wanted; }
#endif

inline RowPlan plan_row(std::int64_t columns) {
  const std::int64_t segments = (columns + kSegment - 1) / kSegment;
  if (columns <= 0 || columns % kLaneValues != 0) return {};
  if (segments <= kMaxRowWarps) return {1, int(segments)};
  if (segments <= 2 * kMaxRowWarps) return {2, int((segments + 1) / 2)};
  return {};
}

inline bool is_aligned_16(const void* data, std::int64_t stride_bytes) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride_bytes % 16 == 0; }
inline bool is_aligned(const RowsIn& rows) { return is_aligned_16(rows.data, rows.stride * bytes_of(rows.type)); }
inline bool is_aligned(const RowsOut& rows) { return is_aligned_16(rows.data, rows.stride * (rows.scale != nullptr ? 1 : bytes_of(rows.type))); }

// Where value k of a row lies in shared memory, so that lanes reading 8 or 16 neighbouring values as 16-byte words
// meet eight different bank groups in each quarter warp: the 16-byte chunk k/4 is XORed with bits 5 and 6 of k.
OCTAVO_HOST_DEVICE int swizzle_word(int k) { return k ^ (((k >> 5) & 3) << 2); }

}  // namespace octavo::cuda
