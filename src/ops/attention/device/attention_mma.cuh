// Attention on the tensor cores (mma.sync m16n8k16), one pass over the keys with a running softmax (FlashAttention-2, arXiv 2307.08691, algorithm 1).
// A CTA takes kWarps · 16 queries of one head; a warp owns 16 queries and their whole output row in registers; keys and values pass through shared memory
// in tiles of kKeys, K(j+1) loading while softmax and PV of tile j run, V(j+1) while the scores of j+1 do.
#pragma once

#include <cstdint>

#include "cuda/cp_async.cuh"
#include "cuda/ldmatrix.cuh"
#include "cuda/mma_float.cuh"
#include "cuda/shared.cuh"
#include "cuda/swizzle.h"
#include "ops/attention/attention_launch.h"
#include "ops/attention/device/attention_tile.cuh"

namespace octavo::device {

template <int HeadDim>
struct AttentionTile {  // head_dim 256 has a kernel of its own: attention_pairs.cuh
  // At head_dim 512 (an autoencoder's one head) Q alone takes 64 KB, so tiles are 16 keys, and an output row is too long for one warp's registers:
  // two warps share 16 queries, both take all scores, each has half the columns.
  static constexpr int kKeys = HeadDim == 512 ? 16 : 64;
  static constexpr int kColumnWarps = HeadDim == 512 ? 2 : 1;
  static constexpr int kWarps = 8;
  static constexpr int kQueries = kWarps / kColumnWarps * 16;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kRowBytes = HeadDim * 2;
  static constexpr int kRowChunks = kRowBytes / cuda::kChunkBytes;
  static constexpr int kQBytes = kQueries * kRowBytes;
  static constexpr int kTileBytes = kKeys * kRowBytes;
  static constexpr int kSharedBytes = kQBytes + 2 * kTileBytes;
  static_assert(kSharedBytes <= 99 * 1024, "fits the smallest Ampere");
};

template <cuda::RowType Type, int HeadDim, bool Causal>
__global__ void __launch_bounds__(AttentionTile<HeadDim>::kThreads) attention_mma_kernel(const AttentionLaunch launch) {
#if __CUDA_ARCH__ >= 800
  using Tile = AttentionTile<HeadDim>;
  constexpr int kKeyBlocks = Tile::kKeys / 8, kColumnBlocks = HeadDim / 8 / Tile::kColumnWarps;
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t q_at = cuda::shared_address(shared);
  const std::uint32_t k_at = q_at + Tile::kQBytes, v_at = k_at + Tile::kTileBytes;
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int group_row = lane / 4, pair = lane % 4;
  const int warp_row = warp / Tile::kColumnWarps * 16, first_block = warp % Tile::kColumnWarps * kColumnBlocks;  // this warp's queries and columns

  const int head = int(blockIdx.y);
  const int kv_column = head / (launch.heads / launch.kv_heads) * HeadDim;
  const std::int64_t first_query = std::int64_t(blockIdx.x) * Tile::kQueries;
  const std::int64_t end_query = first_query + Tile::kQueries < launch.queries ? first_query + Tile::kQueries : launch.queries;
  const std::int64_t keys = Causal ? end_query : launch.keys;
  const int tiles = int((keys + Tile::kKeys - 1) / Tile::kKeys);

  load_head_rows<HeadDim, Tile::kQueries, Tile::kThreads>(q_at, launch.q, first_query, launch.queries, head * HeadDim);
  load_head_rows<HeadDim, Tile::kKeys, Tile::kThreads>(k_at, launch.k, 0, keys, kv_column);
  cuda::cp_async_commit();
  load_head_rows<HeadDim, Tile::kKeys, Tile::kThreads>(v_at, launch.v, 0, keys, kv_column);
  cuda::cp_async_commit();

  // exp(scale · (s - max)) = 2^(log2e · scale · (s - max))
  const float to_log2 = __fmul_rn(launch.softmax_scale, 1.4426950408889634f);
  float out[kColumnBlocks][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY};
  float row_sum[2] = {0, 0};
  // Where this lane's ldmatrix rows begin. A swizzled chunk is chunk ^ (row % 8), row % 8 is the lane's alone, and whole rows are aligned to their length:
  // stepping along a row is one XOR with an immediate.
  static_assert(Tile::kQBytes % 1024 == 0 && Tile::kTileBytes % 1024 == 0 && 1024 % Tile::kRowBytes == 0, "rows stay aligned to their length");
  const std::uint32_t q_lane = q_at + std::uint32_t(cuda::swizzled_offset<Tile::kRowBytes>(warp_row + lane % 16, lane / 16));
  const std::uint32_t k_lane = k_at + std::uint32_t(cuda::swizzled_offset<Tile::kRowBytes>(lane % 8 + lane / 16 * 8, lane / 8 % 2));
  const std::uint32_t v_lane = v_at + std::uint32_t(cuda::swizzled_offset<Tile::kRowBytes>(lane % 16, first_block + lane / 16));
  constexpr std::uint32_t kChunk = cuda::kChunkBytes;

  for (int tile = 0; tile < tiles; ++tile) {
    cuda::cp_async_wait<1>();  // K of this tile, and Q; V may still be on its way
    __syncthreads();
    const std::uint32_t q_now = cuda::recomputed(q_lane), k_now = cuda::recomputed(k_lane), v_now = cuda::recomputed(v_lane);
    float score[kKeyBlocks][4] = {};
#pragma unroll
    for (int k = 0; k < HeadDim / 16; ++k) {
      std::uint32_t a[4];
      cuda::ldmatrix_x4(a, q_now ^ (2 * k * kChunk));
#pragma unroll
      for (int n = 0; n < kKeyBlocks; n += 2) {
        std::uint32_t b[4];
        cuda::ldmatrix_x4(b, (k_now ^ (2 * k * kChunk)) + n * 8 * Tile::kRowBytes);
        cuda::mma_m16n8k16<Type>(score[n], a, b[0], b[1]);
        cuda::mma_m16n8k16<Type>(score[n + 1], a, b[2], b[3]);
      }
    }
    __syncthreads();  // nobody reads this K any more
    const std::int64_t next_key = std::int64_t(tile + 1) * Tile::kKeys;
    if (tile + 1 < tiles) load_head_rows<HeadDim, Tile::kKeys, Tile::kThreads>(k_at, launch.k, next_key, keys, kv_column);
    cuda::cp_async_commit();  // possibly empty: the count of groups stays

    const std::int64_t first_key = std::int64_t(tile) * Tile::kKeys;
    const bool has_hidden = next_key > keys || (Causal && next_key > first_query + 1);
    if (has_hidden) {
#pragma unroll
      for (int n = 0; n < kKeyBlocks; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const std::int64_t key = first_key + n * 8 + pair * 2 + i % 2;
          const std::int64_t query = first_query + warp_row + group_row + i / 2 * 8;
          if (key >= keys || (Causal && key > query)) score[n][i] = -INFINITY;
        }
      }
    }

    float shift[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float largest = row_max[r];
#pragma unroll
      for (int n = 0; n < kKeyBlocks; ++n) largest = fmaxf(largest, fmaxf(score[n][2 * r], score[n][2 * r + 1]));
      largest = quad_max(largest);
      const float shrink = exp2f((row_max[r] - largest) * to_log2);  // 0 for the first tile
      row_max[r] = largest;
      shift[r] = largest * to_log2;
      row_sum[r] *= shrink;
#pragma unroll
      for (int d = 0; d < kColumnBlocks; ++d) {
        out[d][2 * r] *= shrink;
        out[d][2 * r + 1] *= shrink;
      }
    }
#pragma unroll
    for (int n = 0; n < kKeyBlocks; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        score[n][i] = exp2f(__fmaf_rn(score[n][i], to_log2, -shift[i / 2]));
        row_sum[i / 2] += score[n][i];
      }
    }

    cuda::cp_async_wait<1>();  // V of this tile; the next K may still be on its way
    __syncthreads();
#pragma unroll
    for (int k = 0; k < Tile::kKeys / 16; ++k) {
      const std::uint32_t a[4] = {pack_pair<Type>(score[2 * k][0], score[2 * k][1]), pack_pair<Type>(score[2 * k][2], score[2 * k][3]),
                                  pack_pair<Type>(score[2 * k + 1][0], score[2 * k + 1][1]), pack_pair<Type>(score[2 * k + 1][2], score[2 * k + 1][3])};
#pragma unroll
      for (int d = 0; d < kColumnBlocks; d += 2) {
        std::uint32_t b[4];
        cuda::ldmatrix_x4_transposed(b, (v_now ^ (d * kChunk)) + k * 16 * Tile::kRowBytes);
        cuda::mma_m16n8k16<Type>(out[d], a, b[0], b[1]);
        cuda::mma_m16n8k16<Type>(out[d + 1], a, b[2], b[3]);
      }
    }
    __syncthreads();  // nobody reads this V any more
    if (tile + 1 < tiles) load_head_rows<HeadDim, Tile::kKeys, Tile::kThreads>(v_at, launch.v, next_key, keys, kv_column);
    cuda::cp_async_commit();
  }

  // Each warp turns its rows around in the place of its own Q, which nobody reads any more (the last tile ended in a barrier), so that stores are whole
  // 16-byte chunks.
  constexpr int kWarpChunks = Tile::kRowChunks / Tile::kColumnWarps;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float inverse = 1.0f / quad_sum(row_sum[r]);
    const int row = warp_row + group_row + r * 8;
#pragma unroll
    for (int d = 0; d < kColumnBlocks; ++d) {
      cuda::store_shared_4b(q_at + std::uint32_t(cuda::swizzled_offset<Tile::kRowBytes>(row, first_block + d) + pair * 4),
                            pack_pair<Type>(out[d][2 * r] * inverse, out[d][2 * r + 1] * inverse));
    }
  }
  __syncwarp();
#pragma unroll 4
  for (int i = lane; i < 16 * kWarpChunks; i += 32) {
    const int row = warp_row + i / kWarpChunks, chunk = first_block + i % kWarpChunks;
    const std::int64_t m = first_query + row;
    if (m >= launch.queries) continue;
    const uint4 value = cuda::load_shared_16b(q_at + std::uint32_t(cuda::swizzled_offset<Tile::kRowBytes>(row, chunk)));
    *reinterpret_cast<uint4*>(static_cast<char*>(launch.y.data) + (m * launch.y.stride + head * HeadDim) * 2 + chunk * cuda::kChunkBytes) = value;
  }
#endif
}

}  // namespace octavo::device
