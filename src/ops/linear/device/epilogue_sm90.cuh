// From int32 sums in wgmma fragments to outputs in memory:  v = ((float(acc) · x_scale[m]) · w_scale[n]) + bias[n]   numerics.md sections 4, 5
//
// Two ways, chosen once per launch:
//   direct   plain, silu_mul or head_norm_rope, bf16 in whole 16-byte groups: scaled in registers, stmatrix into the warp's slab, 16 bytes per lane to memory.
//            (A copy-engine store from the slab was tried: its reads hold the slab 500 clocks and more, and it writes a row's last 16 bytes whole,
//            also past n.)
//   general  everything else: int32 through the slab, so that a warp runs along rows; loads and stores predicated.
// A warp owns 16 rows of a warpgroup's 64 and its own slab; no barrier wider than a warp is needed.
#pragma once

#include "cuda/cluster_sm90.cuh"
#include "cuda/convert.cuh"
#include "cuda/shared.cuh"
#include "cuda/shared_sm90.cuh"
#include "cuda/tma_sm90.cuh"
#include "ops/linear/device/finish.cuh"
#include "ops/linear/device/params_sm90.cuh"
#include "ops/linear/device/slab_sm90.h"

namespace octavo::sm90 {

__device__ __forceinline__ float scaled(int acc, float x_scale, float w_scale) { return __fmul_rn(__fmul_rn(__int2float_rn(acc), x_scale), w_scale); }

// A load that stays where it is written: hoisted over 128 live accumulators it would cost spills.
__device__ __forceinline__ float load_in_order(const float* from) {
  float value;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(from));
  return value;
}

// The lane number, read where it is written: addresses that hang on it are then computed in the epilogue, not kept in registers through the main loop.
__device__ __forceinline__ int lane_in_order() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// Scales and stores 64 × kN sums of one m64 block; this warp: rows row0 … row0+15, columns col0 … col0+kN-1.
// w_scale: this tile's scales in shared memory. Columns past n are computed and not stored.
template <int kN, bool kBias>
__device__ __forceinline__ void store_direct(const int* acc, const Params& p, const Group& group, int row0, int col0, std::uint32_t w_scale,
                                             std::uint32_t slab) {
  constexpr int kColumns = kN % 64 == 0 ? 64 : 32;  // per round
  constexpr int kLanesPerRow = kColumns / 8;        // 16 bytes each
  constexpr int kRowsPerStore = 32 / kLanesPerRow;
  float x_scale[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) x_scale[h] = load_in_order(group.x_scale + min(row0 + lane_in_order() / 4 + h * 8, group.m - 1));
#pragma unroll
  for (int round = 0; round < kN / kColumns; ++round) {
    const int lane = lane_in_order();  // in every round anew: addresses kept from round to round are registers that 192 accumulators do not leave
    const int matrix = lane / 8;       // of the four that one stmatrix writes: rows 0-7 and 8-15 of columns 0-7, then of columns 8-15
    const int slab_row = (matrix % 2) * 8 + lane % 8;
#pragma unroll
    for (int pair = 0; pair < kColumns / 16; ++pair) {
      std::uint32_t packed[4];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int block = round * (kColumns / 8) + pair * 2 + j;  // 8 columns
        const int column = block * 8 + (lane % 4) * 2;
        const float2 scale = cuda::load_shared_2f(w_scale + column * 4);
        float2 bias{};
        if constexpr (kBias) bias = {load_in_order(group.bias + min(col0 + column, p.n - 1)), load_in_order(group.bias + min(col0 + column + 1, p.n - 1))};
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float2 v = {scaled(acc[block * 4 + h * 2], x_scale[h], scale.x), scaled(acc[block * 4 + h * 2 + 1], x_scale[h], scale.y)};
          if constexpr (kBias) v = {__fadd_rn(v.x, bias.x), __fadd_rn(v.y, bias.y)};
          packed[j * 2 + h] = cuda::pack_bf16x2(v.x, v.y);
        }
      }
      cuda::stmatrix_x4(slab + direct_slab_offset<kColumns>(slab_row, pair * 2 + matrix / 2), packed[0], packed[1], packed[2], packed[3]);
    }
    __syncwarp();
    const int column = col0 + round * kColumns + lane % kLanesPerRow * 8;
    int row = row0 + lane / kLanesPerRow;
    std::uint16_t* y = static_cast<std::uint16_t*>(group.y_data) + row * group.y_stride + column;
#pragma unroll
    for (int i = 0; i < kSlabRows / kRowsPerStore; ++i) {
      const uint4 eight = cuda::load_shared_16b(slab + direct_slab_offset<kColumns>(i * kRowsPerStore + lane / kLanesPerRow, lane % kLanesPerRow));
      if (row < group.m && column < p.n) cuda::store_global_16b(y, eight);
      y += kRowsPerStore * group.y_stride;
      row += kRowsPerStore;
    }
    __syncwarp();
  }
}

// The same block for silu_mul in bf16: kN sums of a row become kN / 2 numbers. A lane holds (gate, up) of one column in every block of 8 sums; two shuffles
// bring two neighbouring columns together, as stmatrix wants them.
template <int kN>
__device__ __forceinline__ void store_direct_pairs(const int* acc, const Params& p, const Group& group, int row0, int col0, std::uint32_t w_scale,
                                                   std::uint32_t slab) {
  constexpr int kSums = 32;  // columns of sums per round: 16 of y, two 16-byte chunks a row
#pragma unroll
  for (int round = 0; round < kN / kSums; ++round) {
    const int lane = lane_in_order();
    const int matrix = lane / 8;  // as in store_direct
    std::uint32_t packed[4];
#pragma unroll
    for (int j = 0; j < 2; ++j) {  // 8 columns of y
      const std::uint32_t scale_of = w_scale + (round * kSums + j * 16 + (lane % 4) * 2) * 4;
#pragma unroll
      for (int h = 0; h < 2; ++h) {  // rows lane / 4 and 8 below; scales are read anew each time, for the same reason as the lane
        const float x_scale = load_in_order(group.x_scale + min(row0 + lane / 4 + h * 8, group.m - 1));
        float product[2];  // of columns lane % 4 and 4 + lane % 4
#pragma unroll
        for (int b = 0; b < 2; ++b) {
          const int* pair = acc + (round * 4 + j * 2 + b) * 4 + h * 2;
          const float2 scale = cuda::load_shared_2f(scale_of + b * 32);
          product[b] = __fmul_rn(device::silu(scaled(pair[0], x_scale, scale.x)), scaled(pair[1], x_scale, scale.y));
        }
        const std::uint32_t mine = cuda::pack_bf16x2(product[0], product[1]);
        const int even = (lane & ~3) | ((2 * lane) & 3);  // who holds columns 2 (lane % 4) and the next
        const std::uint32_t first = __shfl_sync(0xffffffffu, mine, even), second = __shfl_sync(0xffffffffu, mine, even + 1);
        packed[j * 2 + h] = __byte_perm(first, second, lane % 4 < 2 ? 0x5410 : 0x7632);
      }
    }
    cuda::stmatrix_x4(slab + direct_slab_offset<16>((matrix % 2) * 8 + lane % 8, matrix / 2), packed[0], packed[1], packed[2], packed[3]);
    __syncwarp();
    const int column = (col0 + round * kSums) / 2 + lane % 2 * 8;
    const int row = row0 + lane / 2;
    const uint4 eight = cuda::load_shared_16b(slab + direct_slab_offset<16>(lane / 2, lane % 2));
    if (row < group.m && column < p.n / 2) cuda::store_global_16b(static_cast<std::uint16_t*>(group.y_data) + row * group.y_stride + column, eight);
    __syncwarp();
  }
}

__device__ __forceinline__ float2 load_two_in_order(const float* from) {
  float2 value;
  asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "l"(from));
  return value;
}

// cos and sin of a lane's columns in two neighbouring blocks of 8, for its two rows: columns 2 (lane % 4) and the next, rows lane / 4 and 8 below.
struct Angles {
  float2 cos[2][2], sin[2][2];
};
__device__ __forceinline__ Angles load_angles(const HeadNormLaunch& heads, int row0, int last_row, int block) {
  Angles angles;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const long long at = min(row0 + lane_in_order() / 4 + h * 8, last_row) * heads.table_stride + block * 8 + lane_in_order() % 4 * 2;
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      angles.cos[b][h] = load_two_in_order(heads.cos + at + b * 8);
      angles.sin[b][h] = load_two_in_order(heads.sin + at + b * 8);
    }
  }
  return angles;
}

// The same block for head_norm_rope (ops/rope/rope.h) in bf16: kN sums of a row are a head, of which a quad holds column c and its partner c + kN / 2 in the
// same lane. Every step and the order of the sum of squares are those of head_norm_rope's kernel for this head size, so that the bits are, too: there lane l
// adds the squares of columns 4 l … 4 l + 3 with their partners', and a butterfly adds the lanes, l ^ 16 first. Here columns 4 l and 4 l + 1 are with the
// even neighbour of the lane that has the others; l / 2 is the block of 8 columns.
template <int kN>
__device__ __forceinline__ void store_direct_heads(int* acc, const Params& p, const Group& group, int row0, int col0, std::uint32_t w_scale, std::uint32_t norm,
                                                   std::uint32_t slab) {
  constexpr int kHalf = kN / 2, kBlocks = kHalf / 8;  // blocks of 8 columns in a half
  static_assert(kBlocks == 16, "the order of the sum is that of 32 lanes with four columns each");
  const auto value = [&](int block, int h, int b) -> float { return __int_as_float(acc[block * 4 + h * 2 + b]); };

  float x_scale[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) x_scale[h] = load_in_order(group.x_scale + min(row0 + lane_in_order() / 4 + h * 8, group.m - 1));
  Angles angles = load_angles(p.heads, row0, group.m - 1, 0);
  // The projection's results, rounded as they would be stored, take the place of the sums.
#pragma unroll
  for (int block = 0; block < kN / 8; ++block) {
    const float2 scale = cuda::load_shared_2f(w_scale + (block * 8 + lane_in_order() % 4 * 2) * 4);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      int* const two = acc + block * 4 + h * 2;
      const std::uint32_t packed = cuda::pack_bf16x2(scaled(two[0], x_scale[h], scale.x), scaled(two[1], x_scale[h], scale.y));
      two[0] = static_cast<int>(packed << 16);
      two[1] = static_cast<int>(packed & 0xffff0000u);
    }
  }

  float inverse[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum[kBlocks / 2];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const auto squares = [&](int b) {
        const float low = value(block, h, b), high = value(block + kBlocks, h, b);
        return low * low + high * high;
      };
      const float first = squares(0), second = squares(1);
      const float before = __shfl_xor_sync(0xffffffffu, first + second, 1);
      const float four = (before + first) + second;  // in odd lanes; even ones carry numbers that nobody reads
      sum[block % (kBlocks / 2)] = block < kBlocks / 2 ? four : sum[block % (kBlocks / 2)] + four;
    }
#pragma unroll
    for (int step = kBlocks / 4; step > 0; step /= 2) {
#pragma unroll
      for (int i = 0; i < step; ++i) sum[i] += sum[i + step];
    }
    const float both = sum[0] + __shfl_xor_sync(0xffffffffu, sum[0], 2);
    const float all = __shfl_sync(0xffffffffu, both, lane_in_order() | 1);
    inverse[h] = 1.0f / __fsqrt_rn(all / float(kN) + p.heads.eps);
  }

#pragma unroll
  for (int round = 0; round < kBlocks / 4; ++round) {  // 32 columns of the lower half and their partners
    const int lane = lane_in_order();
    const int matrix = lane / 8, slab_row = (matrix % 2) * 8 + lane % 8;  // as in store_direct
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const int first_block = round * 4 + pair * 2;
      Angles next;
      if (first_block + 2 < kBlocks) next = load_angles(p.heads, row0, group.m - 1, first_block + 2);
      std::uint32_t lows[4], highs[4];
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const int block = first_block + b;
        const std::uint32_t weight_at = norm + (block * 8 + lane % 4 * 2) * 4;
        const float2 weight_low = cuda::load_shared_2f(weight_at), weight_high = cuda::load_shared_2f(weight_at + kHalf * 4);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float2 c = angles.cos[b][h], s = angles.sin[b][h];
          const float2 l = {(value(block, h, 0) * inverse[h]) * weight_low.x, (value(block, h, 1) * inverse[h]) * weight_low.y};
          const float2 u = {(value(block + kBlocks, h, 0) * inverse[h]) * weight_high.x, (value(block + kBlocks, h, 1) * inverse[h]) * weight_high.y};
          lows[b * 2 + h] = cuda::pack_bf16x2(l.x * c.x - u.x * s.x, l.y * c.y - u.y * s.y);
          highs[b * 2 + h] = cuda::pack_bf16x2(u.x * c.x + l.x * s.x, u.y * c.y + l.y * s.y);
        }
      }
      cuda::stmatrix_x4(slab + direct_slab_offset<64>(slab_row, pair * 2 + matrix / 2), lows[0], lows[1], lows[2], lows[3]);
      cuda::stmatrix_x4(slab + direct_slab_offset<64>(slab_row, 4 + pair * 2 + matrix / 2), highs[0], highs[1], highs[2], highs[3]);
      if (first_block + 2 < kBlocks) angles = next;
    }
    __syncwarp();
    const int column = col0 + round * 32 + lane % 4 * 8 + lane % 8 / 4 * kHalf;
    int row = row0 + lane / 8;
    std::uint16_t* y = static_cast<std::uint16_t*>(group.y_data) + row * group.y_stride + column;
#pragma unroll
    for (int i = 0; i < kSlabRows / 4; ++i) {
      const uint4 eight = cuda::load_shared_16b(slab + direct_slab_offset<64>(i * 4 + lane / 8, lane % 8));
      if (row < group.m) cuda::store_global_16b(y, eight);
      y += 4 * group.y_stride;
      row += 4;
    }
    __syncwarp();
  }
}

// Two neighbouring elements of a row of y's type; the second is left alone if `both` is false. Never reads or writes past them.
__device__ __forceinline__ float2 load_two(const void* base, long long index, Out type, bool both, bool vector) {
  if (type == Out::f32) {
    const float* from = static_cast<const float*>(base) + index;
    if (both && vector) return *reinterpret_cast<const float2*>(from);
    return {from[0], both ? from[1] : 0.0f};
  }
  const std::uint16_t* from = static_cast<const std::uint16_t*>(base) + index;
  ushort2 bits{};
  if (both && vector) {
    bits = *reinterpret_cast<const ushort2*>(from);
  } else {
    bits.x = from[0];
    if (both) bits.y = from[1];
  }
  if (type == Out::bf16) return {cuda::float_of_bf16(bits.x), cuda::float_of_bf16(bits.y)};
  return {cuda::float_of_f16(bits.x), cuda::float_of_f16(bits.y)};
}

// 32 (type f32, s32) or 16 bits each.
__device__ __forceinline__ void store_two(void* base, long long index, int element_bytes, std::uint32_t low, std::uint32_t high, bool both, bool vector) {
  if (element_bytes == 4) {
    std::uint32_t* to = static_cast<std::uint32_t*>(base) + index;
    if (both && vector) {
      *reinterpret_cast<uint2*>(to) = {low, high};
    } else {
      to[0] = low;
      if (both) to[1] = high;
    }
    return;
  }
  std::uint16_t* to = static_cast<std::uint16_t*>(base) + index;
  if (both && vector) {
    *reinterpret_cast<std::uint32_t*>(to) = low | (high << 16);
  } else {
    to[0] = static_cast<std::uint16_t>(low);
    if (both) to[1] = static_cast<std::uint16_t>(high);
  }
}

__device__ __forceinline__ std::uint32_t bits_of(float value, Out type) {
  return type == Out::f32 ? __float_as_uint(value) : type == Out::bf16 ? cuda::bits_bf16(value) : cuda::bits_f16(value);
}

// Scales and stores 16 rows × 32 columns of sums that lie in the slab; lanes run along a row, two columns each, so what belongs to a column is loaded once.
inline constexpr int kGeneralColumns = 32;
__device__ __forceinline__ void finish_slab(const Params& p, const Group& group, std::uint32_t slab, int row0, int col0) {
  constexpr int kLanesPerRow = kGeneralColumns / 2;
  constexpr int kRowsPerPass = 32 / kLanesPerRow;
  constexpr int kBatch = 4;  // residuals in flight
  const int lane = lane_in_order();
  const int in_row = lane % kLanesPerRow;
  const int column = col0 + in_row * 2;
  const bool both = column + 1 < p.n;
  const int element_bytes = device::element_bytes(p.out);
  const int rows = column < p.n ? min(kSlabRows, group.m - row0) : 0;
  float2 w_scale{}, bias{device::kNoBias, device::kNoBias}, mod_gate{};
  if (column < p.n && p.out != Out::s32) {
    w_scale = {__ldg(group.w_scale + column), both ? __ldg(group.w_scale + column + 1) : 0.0f};
    if (group.bias != nullptr) bias = {__ldg(group.bias + column), both ? __ldg(group.bias + column + 1) : 0.0f};
    if (group.mod_gate != nullptr) mod_gate = {__ldg(group.mod_gate + column), both ? __ldg(group.mod_gate + column + 1) : 0.0f};
  }
#pragma unroll 1
  for (int first = lane / kLanesPerRow; first < rows; first += kBatch * kRowsPerPass) {
    float2 residual[kBatch];
    if (group.residual != nullptr) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int row = first + i * kRowsPerPass;
        if (row < rows) residual[i] = load_two(group.residual, (row0 + row) * group.residual_stride + column, p.out, both, p.vector_residual);
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int row = first + i * kRowsPerPass;
      if (row >= rows) break;
      const int2 acc = cuda::load_shared_2i(slab + general_slab_offset(row, in_row / 2) + (in_row % 2) * 8);
      const long long y_row = (row0 + row) * group.y_stride;
      if (p.out == Out::s32) {
        store_two(group.y_data, y_row + column, 4, acc.x, acc.y, both, p.vector_y);
        continue;
      }
      const float x_scale = __ldg(group.x_scale + row0 + row);
      float2 v = {device::scaled(acc.x, x_scale, w_scale.x, bias.x), device::scaled(acc.y, x_scale, w_scale.y, bias.y)};
      if (p.finish == Finish::silu_mul) {
        store_two(group.y_data, y_row + column / 2, element_bytes, bits_of(__fmul_rn(device::silu(v.x), v.y), p.out), 0, false, false);
        continue;
      }
      if (p.finish == Finish::silu) v = {device::silu(v.x), device::silu(v.y)};
      if (group.mod_gate != nullptr) v = {__fmul_rn(v.x, mod_gate.x), __fmul_rn(v.y, mod_gate.y)};
      if (group.residual != nullptr) v = {__fadd_rn(v.x, residual[i].x), __fadd_rn(v.y, residual[i].y)};
      store_two(group.y_data, y_row + column, element_bytes, bits_of(v.x, p.out), bits_of(v.y, p.out), both, p.vector_y);
    }
  }
}

// The same block as store_direct, by the general way. The accumulators move down per round, so that there is one copy of the code and
// nothing of a later round is loaded early: both cost registers that 128 accumulators do not leave.
template <int kN>
__device__ __forceinline__ void store_general(int* acc, const Params& p, const Group& group, int row0, int col0, std::uint32_t slab) {
  constexpr int kColumns = kGeneralColumns;
  const int lane = lane_in_order();
#pragma unroll 1
  for (int round = 0; round < kN / kColumns; ++round) {
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int offset = general_slab_offset(lane / 4 + 8 * half, j * 2 + (lane % 4) / 2) + (lane % 2) * 8;
        cuda::store_shared_8b(slab + offset, acc[j * 4 + half * 2], acc[j * 4 + half * 2 + 1]);
      }
    }
    __syncwarp();
    finish_slab(p, group, slab, row0, col0 + round * kColumns);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < (kN - kColumns) / 2; ++i) acc[i] = acc[i + kColumns / 2];
  }
}

}  // namespace octavo::sm90
