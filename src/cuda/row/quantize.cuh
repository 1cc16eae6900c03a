// The end of every row op: the row in registers becomes s8 codes and a scale, or floats. numerics.md section 3.
#pragma once

#include "cuda/row/reduce.cuh"
#include "cuda/row/rotate.cuh"
#include "cuda/row/values.cuh"
#include "cuda/shared.cuh"

namespace octavo::cuda {

enum class RowMode : std::uint8_t { floats, codes, rotated_codes };

// Which 16 values of a segment a lane holds: `adjacent` 16 neighbours (the order a rotation starts from, and one 16-byte store
// of codes), or `halves`, 8 neighbours in each half of the segment (full 32-byte sectors for every store of 16-bit floats).
enum class LaneOrder : std::uint8_t { adjacent, halves };

// First of the eight values `half` (0, 1) of a lane, counted from the segment's first.
template <LaneOrder Order>
__device__ __forceinline__ int chunk_of(int lane, int half) {
  return Order == LaneOrder::adjacent ? kLaneValues * lane + 8 * half : kSegment / 2 * half + 8 * lane;
}

inline constexpr std::uint32_t kInfinityBits = 0x7f800000u;

// 127 / absmax, or 0 if all codes are to be 0: a NaN or an infinity anywhere, a zero row, or one too small to invert.
__device__ __forceinline__ float inverse_scale(float absmax) {
  if (__float_as_uint(absmax) >= kInfinityBits) return 0;
  const float inverse = __fdiv_rn(127.0f, absmax);
  return __float_as_uint(inverse) >= kInfinityBits ? 0.0f : inverse;
}

// absmax / 127; NaN for a fault in the row, 0 for a row whose inverse is 0.
__device__ __forceinline__ float scale_of(float absmax, float inverse) {
  if (__float_as_uint(absmax) >= kInfinityBits) return __uint_as_float(0x7fc00000u);
  return inverse == 0.0f ? 0.0f : __fdiv_rn(absmax, 127.0f);
}

// 1.5 · 2^23 + n has n in its low byte, rounded half to even as rint does. No clamp: |x · (127/absmax)| exceeds 127 by less than
// two roundings of it, which rint takes back.
// Rounding::twice gives the bits of the definition, which rounds the product too. A fused op, whose values differ from the definition's by ulps anyway, rounds
// once and saves an instruction a value.
enum class Rounding : std::uint8_t { twice, once };

template <Rounding Steps>
__device__ __forceinline__ std::uint32_t code_bits(float value, float inv_scale) {
  constexpr float kMagic = 12582912.0f;
  return __float_as_uint(Steps == Rounding::twice ? __fadd_rn(__fmul_rn(value, inv_scale), kMagic) : __fmaf_rn(value, inv_scale, kMagic));
}

template <Rounding Steps>
__device__ __forceinline__ std::uint32_t pack_codes(const float* v, float inv_scale) {
  const std::uint32_t low = __byte_perm(code_bits<Steps>(v[0], inv_scale), code_bits<Steps>(v[1], inv_scale), 0x0040);
  const std::uint32_t high = __byte_perm(code_bits<Steps>(v[2], inv_scale), code_bits<Steps>(v[3], inv_scale), 0x0040);
  return __byte_perm(low, high, 0x5410);
}

template <RowType Type, LaneOrder Order, int Segments>
__device__ __forceinline__ void store_floats(const float (&v)[Segments][kLaneValues], const RowsOut& out, std::int64_t row, int columns, int first_segment,
                                             int lane) {
  char* start = static_cast<char*>(out.data) + row * out.stride * bytes_of(Type);
#pragma unroll
  for (int s = 0; s < Segments; ++s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = first_segment + kSegment * s + chunk_of<Order>(lane, half);
      if (k < columns) store_raw8<Type>(start + std::int64_t(k) * bytes_of(Type), pack8<Type>(v[s] + 8 * half));
    }
  }
}

// Rotates the row in registers, all its segments; results are sqrt(group) too large. `words`: kExchangeWords floats of this warp alone.
template <LaneOrder Order, int Segments>
__device__ __forceinline__ void rotate_row(float (&v)[Segments][kLaneValues], int group, float* words) {
  const int lane = int(recomputed(threadIdx.x)) % kWarpLanes;  // the exchange's addresses for this row only: kept from row to row they would spill
#pragma unroll
  for (int s = 0; s < Segments; ++s) {
    if constexpr (Order == LaneOrder::halves) gather_neighbours(v[s], words, lane);
    rotate_segment(v[s], group, words, lane);
  }
}

// Bits of this lane's largest magnitude; at or above kInfinityBits if there is a NaN or an infinity.
template <int Segments>
__device__ __forceinline__ std::uint32_t lane_absmax(const float (&v)[Segments][kLaneValues]) {
  AbsMax absmax;
#pragma unroll
  for (int s = 0; s < Segments; ++s) {
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) absmax.add(v[s][i]);
  }
  return absmax.bits();
}

// The same of the row.
template <int Segments>
__device__ __forceinline__ std::uint32_t absmax_of(const float (&v)[Segments][kLaneValues], RowReducer& reducer) {
  return reducer.max(lane_absmax(v));
}

// Stores codes and scale of the row `unit` · v. With Rounding::twice unit is a power of two, and the bits are those of that row.
template <RowMode Mode, LaneOrder Order, Rounding Steps, int Segments>
__device__ __forceinline__ void store_codes(float (&v)[Segments][kLaneValues], std::uint32_t absmax_bits, float unit, const RowsOut& out, std::int64_t row,
                                            int columns, float* words) {
  const int thread = int(recomputed(threadIdx.x));
  const int lane = thread % kWarpLanes;
  const int first_segment = thread / kWarpLanes * Segments * kSegment;
  const float absmax = __uint_as_float(absmax_bits) * unit;
  const float inverse = inverse_scale(absmax);
  if (threadIdx.x == 0) out.scale[row] = scale_of(absmax, inverse);
  std::int8_t* codes = static_cast<std::int8_t*>(out.data) + row * out.stride;
  float factor = inverse * unit;  // (unit · v) · inverse, rounded once, is v · (unit · inverse)
  if (inverse == 0.0f) {          // a NaN times 0 would not be code 0
    factor = 0;
#pragma unroll
    for (int s = 0; s < Segments; ++s) {
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) v[s][i] = 0;
    }
  }
  if (Steps == Rounding::once && __float_as_uint(factor) >= kInfinityBits) {  // a row so small that only unit · v is a normal number
    constexpr float kLarger = 0x1p64f;
#pragma unroll
    for (int s = 0; s < Segments; ++s) {
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) v[s][i] *= kLarger;
    }
    factor = inverse / kLarger * unit;
  }
#pragma unroll
  for (int s = 0; s < Segments; ++s) {
    const int segment = first_segment + kSegment * s;
    if constexpr (Mode == RowMode::rotated_codes) {
      // Bytes go straight from the float's low byte to shared memory: no packing, and lanes read back 16 neighbours.
      auto* bytes = reinterpret_cast<std::uint8_t*>(words);
      const int first = (lane & 15) + (256 + 16) * (lane >> 4);
#pragma unroll
      for (int r = 0; r < kLaneValues; ++r) bytes[first + 16 * r] = std::uint8_t(code_bits<Steps>(v[s][r], factor));
      __syncwarp();
      const int k = segment + kLaneValues * lane;
      if (k < columns) *reinterpret_cast<uint4*>(codes + k) = *reinterpret_cast<const uint4*>(bytes + exchange_byte(kLaneValues * lane));
      __syncwarp();
    } else if constexpr (Order == LaneOrder::adjacent) {
      const int k = segment + kLaneValues * lane;
      const uint4 packed = make_uint4(pack_codes<Steps>(v[s], factor), pack_codes<Steps>(v[s] + 4, factor), pack_codes<Steps>(v[s] + 8, factor),
                                      pack_codes<Steps>(v[s] + 12, factor));
      if (k < columns) *reinterpret_cast<uint4*>(codes + k) = packed;
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int k = segment + chunk_of<Order>(lane, half);
        const uint2 packed = make_uint2(pack_codes<Steps>(v[s] + 8 * half, factor), pack_codes<Steps>(v[s] + 8 * half + 4, factor));
        if (k < columns) *reinterpret_cast<uint2*>(codes + k) = packed;
      }
    }
  }
}

// Stores the row of a fused op; `v` holds zeros beyond the last column. For rotated_codes the caller has divided v by out.rotation_unit.
template <RowMode Mode, LaneOrder Order, int Segments>
__device__ __forceinline__ void store_row(float (&v)[Segments][kLaneValues], const RowsOut& out, std::int64_t row, int columns, RowReducer& reducer,
                                          float* words) {
  if constexpr (Mode == RowMode::floats) {
    const int lane = int(threadIdx.x) % kWarpLanes;
    const int first_segment = int(threadIdx.x) / kWarpLanes * Segments * kSegment;
    switch (out.type) {
      case RowType::f32:
        return store_floats<RowType::f32, Order>(v, out, row, columns, first_segment, lane);
      case RowType::bf16:
        return store_floats<RowType::bf16, Order>(v, out, row, columns, first_segment, lane);
      case RowType::f16:
        return store_floats<RowType::f16, Order>(v, out, row, columns, first_segment, lane);
    }
  } else {
    if constexpr (Mode == RowMode::rotated_codes) rotate_row<Order>(v, out.rotation_group, words);
    store_codes<Mode, Order, Rounding::once>(v, absmax_of(v, reducer), 1.0f, out, row, columns, words);
  }
}

// Reads a warp's part of a row; zeros beyond the last column.
template <RowType Type, LaneOrder Order, int Segments>
__device__ __forceinline__ void load_row(Raw8<Type> (&raw)[Segments][2], const RowsIn& rows, std::int64_t row, int columns) {
  const int lane = int(threadIdx.x) % kWarpLanes;
  const int first_segment = int(threadIdx.x) / kWarpLanes * Segments * kSegment;
  const char* start = static_cast<const char*>(rows.data) + row * rows.stride * bytes_of(Type);
#pragma unroll
  for (int s = 0; s < Segments; ++s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = first_segment + kSegment * s + chunk_of<Order>(lane, half);
      raw[s][half] = k < columns ? load_raw8<Type>(start + std::int64_t(k) * bytes_of(Type)) : Raw8<Type>{};
    }
  }
}

template <RowType Type, int Segments>
__device__ __forceinline__ void unpack_row(const Raw8<Type> (&raw)[Segments][2], float (&v)[Segments][kLaneValues]) {
#pragma unroll
  for (int s = 0; s < Segments; ++s) {
    unpack8<Type>(raw[s][0], v[s]);
    unpack8<Type>(raw[s][1], v[s] + 8);
  }
}

}  // namespace octavo::cuda
