// Attention with int8 scores (mma.sync m16n8k32) and float16 sums of float16 weights and values (m16n8k16), one pass over the keys with a running softmax.
// A CTA takes 128 queries of one head, a warp 16 of them and their whole output row in registers:
//   shared memory   Q 128 × D codes, K 2 × 64 × D codes and their scales, V 64 × D float16: at D = 256 96.5 KB of the 99 that sm_86, 89 and 120 have
//   a tile          scores of 64 keys from codes; softmax; P · V in float16 over these 64 keys alone (16 registers of sums at a time), then into float32:
//                   twice the rate of float32 sums on GeForce, and no sum is ever longer than 64 terms of at most 512 (attention_int8.h: unit)
//   two barriers    K of tile j is there and tile j - 1 is done: V(j), then K(j + 1) begin to load;  V of tile j is there
#pragma once

#include <cfloat>
#include <cstdint>

#include "cuda/convert.cuh"
#include "cuda/cp_async.cuh"
#include "cuda/ldmatrix.cuh"
#include "cuda/mma_float.cuh"
#include "cuda/mma_s8.cuh"
#include "cuda/row/values.cuh"
#include "cuda/shared.cuh"
#include "cuda/swizzle.h"
#include "ops/attention/attention_int8_launch.h"
#include "ops/attention/device/attention_tile.cuh"

namespace octavo::device {

template <int HeadDim>
struct Int8AttentionTile {
  static constexpr int kWarps = 8;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kQueries = kWarps * 16;
  static constexpr int kKeys = 64;
  static constexpr int kQBytes = kQueries * HeadDim;
  static constexpr int kKBytes = kKeys * HeadDim;
  static constexpr int kVBytes = kKeys * HeadDim * 2;
  static constexpr int kScaleBytes = kKeys * 4;
  static constexpr int kSharedBytes = kQBytes + 2 * kKBytes + kVBytes + 2 * kScaleBytes;
  static_assert(kSharedBytes <= 99 * 1024, "fits the smallest Ampere");
};

// Rows [first, first + kRows) of kRowBytes at `from` into swizzled shared memory; rows from `count` on become zero. `stride` in bytes.
template <int kRowBytes, int kRows, int kThreads>
__device__ __forceinline__ void load_tile_rows(std::uint32_t to, const void* from, std::int64_t stride, std::int64_t first, std::int64_t count) {
  constexpr int kRowChunks = kRowBytes / cuda::kChunkBytes;
  constexpr int kRowsAtOnce = kThreads / kRowChunks;  // a thread stays in its chunk column
  static_assert(kThreads % kRowChunks == 0 && kRows % kRowsAtOnce == 0, "every thread copies the same number of chunks");
  const int first_row = int(cuda::recomputed(threadIdx.x)) / kRowChunks, chunk = int(threadIdx.x) % kRowChunks;
  const char* at = static_cast<const char*>(from) + (first + first_row) * stride + chunk * cuda::kChunkBytes;
  const int left = int(count - first < kRows ? count - first : kRows);  // rows that are there
#pragma unroll
  for (int row = first_row, i = 0; i < kRows / kRowsAtOnce; ++i, row += kRowsAtOnce, at += kRowsAtOnce * stride) {
    const bool is_there = row < left;
    cuda::cp_async_16b_or_zero(to + std::uint32_t(cuda::swizzled_offset<kRowBytes>(row, chunk)), is_there ? at : from, is_there ? 1u : 0u);
  }
}

__device__ __forceinline__ float2 load_shared_two(std::uint32_t from) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from) : "memory");
  return v;
}

// kTimes: for a bench alone. Each group of products is done so often, which gives it the clocks that it takes on another GPU, and a result of no meaning.
template <int HeadDim, int kTimes = 1>
__global__ void __launch_bounds__(Int8AttentionTile<HeadDim>::kThreads) attention_int8_kernel(const AttentionInt8Launch launch) {
#if __CUDA_ARCH__ >= 800
  using Tile = Int8AttentionTile<HeadDim>;
  constexpr int kKeyBlocks = Tile::kKeys / 8, kColumnBlocks = HeadDim / 8;
  constexpr int kGroup = 8;  // column blocks whose float16 sums are held at a time: enough independent products to hide their latency
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t q_at = cuda::shared_address(shared);
  const std::uint32_t k_at = q_at + Tile::kQBytes, v_at = k_at + 2 * Tile::kKBytes, scale_at = v_at + Tile::kVBytes;
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int group_row = lane / 4, pair = lane % 4, warp_row = warp * 16;

  const int head = int(blockIdx.y), kv_head = head / (launch.heads / launch.kv_heads);
  const std::int64_t first_query = std::int64_t(blockIdx.x) * Tile::kQueries, keys = launch.keys;
  const int tiles = int((keys + Tile::kKeys - 1) / Tile::kKeys);

  // Where a head's keys and values begin is computed anew for each tile: registers are short.
  const auto load_keys = [&](int tile) {
    const std::int64_t first = std::int64_t(tile) * Tile::kKeys;
    const std::int64_t head_now = cuda::recomputed(std::uint32_t(kv_head));
    load_tile_rows<HeadDim, Tile::kKeys, Tile::kThreads>(k_at + std::uint32_t(tile % 2 * Tile::kKBytes), launch.k + head_now * HeadDim,
                                                         std::int64_t(launch.kv_heads) * HeadDim, first, keys);
    if (threadIdx.x < Tile::kKeys) {
      const bool is_there = first + threadIdx.x < keys;
      cuda::cp_async_4b_or_zero(scale_at + std::uint32_t(tile % 2 * Tile::kScaleBytes) + threadIdx.x * 4,
                                launch.k_scale + (is_there ? head_now * keys + first + threadIdx.x : 0), is_there ? 1u : 0u);
    }
  };
  const auto load_values = [&](int tile) {
    const std::int64_t head_now = cuda::recomputed(std::uint32_t(kv_head));
    load_tile_rows<2 * HeadDim, Tile::kKeys, Tile::kThreads>(v_at, launch.v + head_now * HeadDim, std::int64_t(launch.kv_heads) * HeadDim * 2,
                                                             std::int64_t(tile) * Tile::kKeys, keys);
  };
  load_tile_rows<HeadDim, Tile::kQueries, Tile::kThreads>(q_at, launch.q + head * HeadDim, std::int64_t(launch.heads) * HeadDim, first_query, launch.queries);
  load_keys(0);
  cuda::cp_async_commit();

  // exp(softmax_scale · q_scale · s) = 2^(to_log2 · s). Not less than the smallest normal number, so that -infinity stays what it is; a NaN passes.
  float to_log2[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const std::int64_t query = first_query + warp_row + group_row + r * 8;
    const float q_scale = query < launch.queries ? launch.q_scale[head * launch.queries + query] : 0.0f;
    const float factor = __fmul_rn(__fmul_rn(q_scale, launch.softmax_scale), 1.4426950408889634f);
    to_log2[r] = factor < FLT_MIN ? FLT_MIN : factor;
  }
  float out[kColumnBlocks][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY};
  float row_sum[2] = {0, 0};
  // Where this lane's ldmatrix rows begin; stepping along a row is one XOR with an immediate (attention_mma.cuh).
  static_assert(Tile::kQBytes % 1024 == 0 && Tile::kKBytes % 1024 == 0 && Tile::kVBytes % 1024 == 0 && 1024 % (2 * HeadDim) == 0,
                "rows stay aligned to their length");
  const std::uint32_t q_lane = q_at + std::uint32_t(cuda::swizzled_offset<HeadDim>(warp_row + lane % 16, lane / 16));
  const std::uint32_t k_lane = k_at + std::uint32_t(cuda::swizzled_offset<HeadDim>(lane % 8 + lane / 16 * 8, lane / 8 % 2));
  const std::uint32_t v_lane = v_at + std::uint32_t(cuda::swizzled_offset<2 * HeadDim>(lane % 16, lane / 16));
  constexpr std::uint32_t kChunk = cuda::kChunkBytes;

  for (int tile = 0; tile < tiles; ++tile) {
    cuda::cp_async_wait<0>();  // K of this tile, and Q
    __syncthreads();           // for everybody; and nobody reads V or the other K any more
    load_values(tile);
    cuda::cp_async_commit();
    if (tile + 1 < tiles) load_keys(tile + 1);
    cuda::cp_async_commit();  // possibly empty: the count of groups stays

    const std::uint32_t q_now = cuda::recomputed(q_lane), v_now = cuda::recomputed(v_lane);
    const std::uint32_t k_now = cuda::recomputed(k_lane) + std::uint32_t(tile % 2 * Tile::kKBytes);
    int dot[kKeyBlocks][4] = {};
#pragma unroll
    for (int k = 0; k < HeadDim / 32; ++k) {
      std::uint32_t a[4];
      cuda::ldmatrix_x4(a, q_now ^ (2 * k * kChunk));
#pragma unroll
      for (int n = 0; n < kKeyBlocks; n += 4) {
        std::uint32_t b[2][4];
        cuda::ldmatrix_x4(b[0], (k_now ^ (2 * k * kChunk)) + n * 8 * HeadDim);
        cuda::ldmatrix_x4(b[1], (k_now ^ (2 * k * kChunk)) + (n + 2) * 8 * HeadDim);
#pragma unroll
        for (int i = 0; i < 4 * kTimes; ++i) cuda::mma_m16n8k32_s8(dot[n + i % 4], a, b[i / 2 % 2][i % 2 * 2], b[i / 2 % 2][i % 2 * 2 + 1]);
      }
    }

    float score[kKeyBlocks][4];
    const std::uint32_t scales_now = scale_at + std::uint32_t(tile % 2 * Tile::kScaleBytes) + pair * 8;
#pragma unroll
    for (int n = 0; n < kKeyBlocks; ++n) {
      const float2 scale = load_shared_two(scales_now + n * 32);
#pragma unroll
      for (int i = 0; i < 4; ++i) score[n][i] = float(dot[n][i]) * (i % 2 == 0 ? scale.x : scale.y);
    }
    const std::int64_t first_key = std::int64_t(tile) * Tile::kKeys;
    if (first_key + Tile::kKeys > keys) {
#pragma unroll
      for (int n = 0; n < kKeyBlocks; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (first_key + n * 8 + pair * 2 + i % 2 >= keys) score[n][i] = -INFINITY;
        }
      }
    }

    float shrink[2], shift[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float largest = row_max[r];
#pragma unroll
      for (int n = 0; n < kKeyBlocks; ++n) largest = fmaxf(largest, fmaxf(score[n][2 * r], score[n][2 * r + 1]));
      largest = quad_max(largest);
      shrink[r] = exp2f((row_max[r] - largest) * to_log2[r]);  // 0 for the first tile
      row_max[r] = largest;
      shift[r] = largest * to_log2[r];
      row_sum[r] *= shrink[r];
    }
    std::uint32_t p[Tile::kKeys / 16][4];
#pragma unroll
    for (int n = 0; n < kKeyBlocks; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float low = exp2f(__fmaf_rn(score[n][2 * r], to_log2[r], -shift[r])), high = exp2f(__fmaf_rn(score[n][2 * r + 1], to_log2[r], -shift[r]));
        row_sum[r] += low;
        row_sum[r] += high;
        p[n / 2][n % 2 * 2 + r] = cuda::pack_f16x2(low, high);
      }
    }

    cuda::cp_async_wait<1>();  // V of this tile; the next K may still be on its way
    __syncthreads();
#pragma unroll
    for (int group = 0; group < kColumnBlocks; group += kGroup) {
      std::uint32_t sum[kGroup][2] = {};
#pragma unroll
      for (int k = 0; k < Tile::kKeys / 16; ++k) {
#pragma unroll
        for (int d = 0; d < kGroup; d += 4) {
          std::uint32_t b[2][4];
          cuda::ldmatrix_x4_transposed(b[0], (v_now ^ ((group + d) * kChunk)) + k * 16 * 2 * HeadDim);
          cuda::ldmatrix_x4_transposed(b[1], (v_now ^ ((group + d + 2) * kChunk)) + k * 16 * 2 * HeadDim);
#pragma unroll
          for (int i = 0; i < 4 * kTimes; ++i) cuda::mma_m16n8k16_f16_sums(sum[d + i % 4], p[k], b[i / 2 % 2][i % 2 * 2], b[i / 2 % 2][i % 2 * 2 + 1]);
        }
      }
#pragma unroll
      for (int d = 0; d < kGroup; ++d) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float2 two = __half22float2(reinterpret_cast<const __half2&>(sum[d][r]));
          out[group + d][2 * r] = __fmaf_rn(out[group + d][2 * r], shrink[r], two.x);
          out[group + d][2 * r + 1] = __fmaf_rn(out[group + d][2 * r + 1], shrink[r], two.y);
        }
      }
    }
  }

  const float inverse_unit = __fdiv_rn(1.0f, launch.v_unit[kv_head]);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float inverse = __fdiv_rn(1.0f, quad_sum(row_sum[r])) * inverse_unit;
    const std::int64_t query = first_query + warp_row + group_row + r * 8;
    if (query >= launch.queries) continue;
    const std::int64_t at = query * launch.y.stride + head * HeadDim + pair * 2;
#pragma unroll
    for (int d = 0; d < kColumnBlocks; ++d) {
      const float low = out[d][2 * r] * inverse, high = out[d][2 * r + 1] * inverse;
      if (launch.y.type == cuda::RowType::f32) {
        *reinterpret_cast<float2*>(static_cast<float*>(launch.y.data) + at + d * 8) = make_float2(low, high);
      } else {
        *reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(launch.y.data) + at + d * 8) =
            launch.y.type == cuda::RowType::bf16 ? cuda::pack_bf16x2(low, high) : cuda::pack_f16x2(low, high);
      }
    }
  }
#endif
}

}  // namespace octavo::device
