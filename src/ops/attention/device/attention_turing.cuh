// Attention in float16 for Turing: as attention_mma.cuh, but with mma.sync m16n8k8, without cp.async, and in 64 KB of shared memory.
// A tile of keys or values waits in registers while the one before it is used: V(j) is fetched before the scores of tile j and stored behind them, K(j+1) is
// fetched before the softmax of tile j and stored behind its PV. Two barriers a tile.
//
//   shared memory   Q [kQueries, D], K [kKeys, D], V [kKeys, D] in swizzled rows: 32 KB at D 64, 64 KB else, all that a CTA can have there
//   registers       out kColumnBlocks · 4 (128 at D 256), scores kKeys / 2, a waiting tile 32 (16 at D 128, 8 at D 64)
#pragma once

#include "ops/attention/device/attention_mma.cuh"

namespace octavo::device {

template <int HeadDim>
struct TuringTile {
  static constexpr int kKeys = HeadDim == 512 ? 16 : HeadDim == 256 ? 32 : 64;
  static constexpr int kColumnWarps = HeadDim == 512 ? 2 : 1;  // as there: a row of 512 columns is two warps'
  static constexpr int kWarps = HeadDim >= 256 ? 4 : 8;
  static constexpr int kQueries = kWarps / kColumnWarps * 16;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kRowBytes = HeadDim * 2;
  static constexpr int kRowChunks = kRowBytes / cuda::kChunkBytes;
  static constexpr int kQBytes = kQueries * kRowBytes;
  static constexpr int kTileBytes = kKeys * kRowBytes;
  static constexpr int kSharedBytes = kQBytes + 2 * kTileBytes;
  static constexpr int kHeld = kKeys * kRowChunks / kThreads;  // chunks of a tile that wait in a thread
  static_assert(kSharedBytes <= 64 * 1024, "fits Turing");
  static_assert(kThreads % kRowChunks == 0 && kHeld * kThreads == kKeys * kRowChunks, "threads take whole rows, all of them as many");
};

// This thread's chunks of rows [first, first + kRows) of a head, from row threadIdx / chunks-of-a-row on; rows from `count` on are zeros.
template <int HeadDim, int kRows, int kThreads>
struct HeldRows {
  static constexpr int kRowChunks = HeadDim * 2 / cuda::kChunkBytes;
  static constexpr int kRowsAtOnce = kThreads / kRowChunks;
  static constexpr int kCount = kRows / kRowsAtOnce;
  uint4 chunks[kCount];

  __device__ __forceinline__ void fetch(const cuda::RowsIn& rows, std::int64_t first, std::int64_t count, int column) {
    const int row = int(cuda::recomputed(threadIdx.x)) / kRowChunks, chunk = int(threadIdx.x) % kRowChunks;
    const char* from = static_cast<const char*>(rows.data) + ((first + row) * rows.stride + column) * 2 + chunk * cuda::kChunkBytes;
    const std::int64_t left = count - first - row;  // rows from this thread's first one on
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      chunks[i] = i * kRowsAtOnce < left ? *reinterpret_cast<const uint4*>(from + i * kRowsAtOnce * rows.stride * 2) : make_uint4(0, 0, 0, 0);
    }
  }
  __device__ __forceinline__ void put(std::uint32_t to) const {
    const int row = int(cuda::recomputed(threadIdx.x)) / kRowChunks, chunk = int(threadIdx.x) % kRowChunks;
#pragma unroll
    for (int i = 0; i < kCount; ++i) cuda::store_shared_16b(to + std::uint32_t(cuda::swizzled_offset<HeadDim * 2>(row + i * kRowsAtOnce, chunk)), chunks[i]);
  }
};

template <int HeadDim, bool Causal>
__global__ void __launch_bounds__(TuringTile<HeadDim>::kThreads) attention_turing_kernel(const AttentionLaunch launch) {
#if __CUDA_ARCH__ <= 900  // left out on GPUs newer than the newest that tests run it on
  using Tile = TuringTile<HeadDim>;
  constexpr cuda::RowType kType = cuda::RowType::f16;
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

  HeldRows<HeadDim, Tile::kKeys, Tile::kThreads> held;
  // Q in pieces of a key tile's size, by way of the same registers.
  static_assert(Tile::kQueries % Tile::kKeys == 0, "Q is whole tiles");
#pragma unroll 1
  for (int piece = 0; piece < Tile::kQueries / Tile::kKeys; ++piece) {
    held.fetch(launch.q, first_query + piece * Tile::kKeys, launch.queries, head * HeadDim);
    held.put(q_at + std::uint32_t(piece * Tile::kTileBytes));
  }
  held.fetch(launch.k, 0, keys, kv_column);
  held.put(k_at);
  held.fetch(launch.v, 0, keys, kv_column);

  const float to_log2 = __fmul_rn(launch.softmax_scale, 1.4426950408889634f);
  float out[kColumnBlocks][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY};
  float row_sum[2] = {0, 0};
  static_assert(Tile::kQBytes % 1024 == 0 && Tile::kTileBytes % 1024 == 0 && 1024 % Tile::kRowBytes == 0, "rows stay aligned to their length");
  const std::uint32_t q_lane = q_at + std::uint32_t(cuda::swizzled_offset<Tile::kRowBytes>(warp_row + lane % 16, lane / 16));
  const std::uint32_t k_lane = k_at + std::uint32_t(cuda::swizzled_offset<Tile::kRowBytes>(lane % 8 + lane / 16 * 8, lane / 8 % 2));
  const std::uint32_t v_lane = v_at + std::uint32_t(cuda::swizzled_offset<Tile::kRowBytes>(lane % 16, first_block + lane / 16));
  constexpr std::uint32_t kChunk = cuda::kChunkBytes;
  __syncthreads();  // Q and the first K

  for (int tile = 0; tile < tiles; ++tile) {
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
        cuda::mma_2_m16n8k8_f16(score[n], a, b[0], b[1]);
        cuda::mma_2_m16n8k8_f16(score[n + 1], a, b[2], b[3]);
      }
    }
    held.put(v_at);  // the V before it was read before the barrier that ended its tile
    const std::int64_t next_key = std::int64_t(tile + 1) * Tile::kKeys;
    if (tile + 1 < tiles) held.fetch(launch.k, next_key, keys, kv_column);
    __syncthreads();  // V is there, and nobody reads this K any more

    const std::int64_t first_key = std::int64_t(tile) * Tile::kKeys;
    if (next_key > keys || (Causal && next_key > first_query + 1)) {
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
#pragma unroll
    for (int k = 0; k < Tile::kKeys / 16; ++k) {
      const std::uint32_t a[4] = {pack_pair<kType>(score[2 * k][0], score[2 * k][1]), pack_pair<kType>(score[2 * k][2], score[2 * k][3]),
                                  pack_pair<kType>(score[2 * k + 1][0], score[2 * k + 1][1]), pack_pair<kType>(score[2 * k + 1][2], score[2 * k + 1][3])};
#pragma unroll
      for (int d = 0; d < kColumnBlocks; d += 2) {
        std::uint32_t b[4];
        cuda::ldmatrix_x4_transposed(b, (v_now ^ (d * kChunk)) + k * 16 * Tile::kRowBytes);
        cuda::mma_2_m16n8k8_f16(out[d], a, b[0], b[1]);
        cuda::mma_2_m16n8k8_f16(out[d + 1], a, b[2], b[3]);
      }
    }
    if (tile + 1 < tiles) {
      held.put(k_at);
      held.fetch(launch.v, next_key, keys, kv_column);
    }
    __syncthreads();  // the next K is there, and nobody reads this V any more
  }

  // Each warp turns its rows around in the place of its own Q, which nobody reads any more, so that stores are whole 16-byte chunks.
  constexpr int kWarpChunks = Tile::kRowChunks / Tile::kColumnWarps;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float inverse = 1.0f / quad_sum(row_sum[r]);
    const int row = warp_row + group_row + r * 8;
#pragma unroll
    for (int d = 0; d < kColumnBlocks; ++d) {
      cuda::store_shared_4b(q_at + std::uint32_t(cuda::swizzled_offset<Tile::kRowBytes>(row, first_block + d) + pair * 4),
                            pack_pair<kType>(out[d][2 * r] * inverse, out[d][2 * r + 1] * inverse));
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
