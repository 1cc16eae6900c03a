// Attention with head_dim 256 on mma.sync (m16n8k16) in 99 KB, for sm_80 and later. Two warps share 32 queries; each has half of the columns of Q, K, V and of
// the result. So a fragment of K or V that comes from shared memory is multiplied twice, and Q stays in registers.
//   a CTA           128 queries of one head, eight warps; one a SM
//   shared memory   K 2 x 32 keys, V 2 x 32 keys, 16 KB each; 6 KB a pair of warps to exchange through; 8 KB of Q, for want of registers
//   a tile          scores of 32 keys of tile j + 1 and P V of tile j in turn, in four parts of 32 products a warp, so that what is exchanged has time:
//                     1  this warp's columns of the scores of the other warp's 16 keys: given away.  The next K and V begin to load
//                     2  P V of 16 keys
//                     3  the scores of the own 16 keys, beginning with what the other warp gave
//                     4  P V of 16 keys, and among it the weights P of the own keys: given away, as the fragments that they will be
// Weights are 2^(s - r) with a reference r for each row that follows the row's largest score only when that is 2^8 above it: any r gives the same quotient
// of sums. So the result is seldom rescaled.
// Measured on an H200 (docs/performance.md): 45 % of the ceiling of mma.sync there, and 83 % where a product takes as many clocks as on a GeForce (kTimes).
#pragma once

#include <cstdint>

#include "cuda/convert.cuh"
#include "cuda/cp_async.cuh"
#include "cuda/exp2.cuh"
#include "cuda/ldmatrix.cuh"
#include "cuda/mma_float.cuh"
#include "cuda/overlap.cuh"
#include "cuda/shared.cuh"
#include "cuda/swizzle.h"
#include "ops/attention/attention_launch.h"
#include "ops/attention/device/attention_tile.cuh"

namespace octavo::device {

struct AttentionPairsLaunch {
  AttentionLaunch attention{};
  int q_tiles = 0;  // of 128 queries, a head
  int whole = 0;    // CTAs that take 128 queries; behind them two each take the halves of a tile

  int ctas() const { return 2 * q_tiles * attention.heads - whole; }
};

struct AttentionPairsTile {
  static constexpr int kHeadDim = 256;
  static constexpr int kPairs = 4;
  static constexpr int kThreads = kPairs * 64;
  static constexpr int kKeys = 32;
  static constexpr int kQueries = kPairs * 32;
  static constexpr int kRowBytes = kHeadDim * 2;
  static constexpr int kTileBytes = kKeys * kRowBytes;
  static constexpr int kFragmentBytes = 512;              // 16 bytes a lane
  static constexpr int kScoreBytes = 4 * kFragmentBytes;  // what one warp gives away
  static constexpr int kPairBytes = 2 * kScoreBytes + 4 * kFragmentBytes;
  static constexpr int kSpilledSteps = 1;  // of the eight steps of 16 columns, those whose fragments of Q lie in shared memory
  static constexpr int kSpilledBytes = kPairs * 2 * 2 * kSpilledSteps * kFragmentBytes;
  static constexpr int kSharedBytes = 4 * kTileBytes + kPairs * kPairBytes + kSpilledBytes;
  static_assert(kSharedBytes <= 99 * 1024, "fits the smallest Ampere");
  static_assert(kQueries * kRowBytes == 4 * kTileBytes, "Q passes through the place of K and V");
};

// Tiles that do not fill the GPU's last wave are cut in two, if the halves still fit in it.
inline AttentionPairsLaunch pairs_launch(const AttentionLaunch& launch, int sms) {
  AttentionPairsLaunch pairs{.attention = launch, .q_tiles = int((launch.queries + AttentionPairsTile::kQueries - 1) / AttentionPairsTile::kQueries)};
  const int tiles = pairs.q_tiles * launch.heads, rest = tiles % sms;
  pairs.whole = 2 * rest <= sms && !launch.causal ? tiles - rest : tiles;
  return pairs;
}

// Waits for both warps of a pair, `id` 1 to 15; memory written before is seen after.
__device__ __forceinline__ void meet_pair(int id) { asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory"); }
// The same, and tells whether `mine` holds in a thread of either.
__device__ __forceinline__ bool any_in_pair(int id, bool mine) {
  int any;
  asm volatile("{\n .reg .pred in, out;\n setp.ne.s32 in, %2, 0;\n bar.red.or.pred out, %1, 64, in;\n selp.s32 %0, 1, 0, out;\n}"
               : "=r"(any)
               : "r"(id), "r"(int(mine))
               : "memory");
  return any != 0;
}

__device__ __forceinline__ void store_fragment(std::uint32_t to, const float (&f)[4]) {
  cuda::store_shared_16b(to, make_uint4(__float_as_uint(f[0]), __float_as_uint(f[1]), __float_as_uint(f[2]), __float_as_uint(f[3])));
}

// kBlocks · 16 queries a pair: 2, or 1 for half a tile. A row's bits do not depend on it.
// kTimes: for a bench alone. Each group of four products is done so often, which gives it the clocks that it takes on another GPU, and a result of no meaning.
template <cuda::RowType Type, bool Causal, int kBlocks, int kTimes>
__device__ __forceinline__ void attend_in_pairs(const AttentionLaunch& launch, std::uint32_t shared, int head, int first_query) {
  using Tile = AttentionPairsTile;
  constexpr int kHeadDim = Tile::kHeadDim, kRowBytes = Tile::kRowBytes, kQueries = Tile::kPairs * 16 * kBlocks;
  constexpr int kSteps = kHeadDim / 2 / 16, kKeptSteps = kSteps - Tile::kSpilledSteps;  // of 16 columns, in a warp's half
  constexpr int kColumnBlocks = kHeadDim / 2 / 8;
  constexpr std::uint32_t kChunk = cuda::kChunkBytes;
  constexpr float kSlack = 8;  // how far above its reference, in powers of two, a score may be: P up to 256 in float16 too
  const int lane = int(threadIdx.x) % 32, half = int(threadIdx.x) / 32 % 2, pair = int(threadIdx.x) / 64, barrier = pair + 1;
  const int pair_row = pair * 16 * kBlocks;
  const int kv_column = head / (launch.heads / launch.kv_heads) * kHeadDim;
  const int keys = int(Causal && first_query + kQueries < launch.queries ? first_query + kQueries : Causal ? launch.queries : launch.keys);
  const int tiles = (keys + Tile::kKeys - 1) / Tile::kKeys;
  const std::uint32_t k_at = shared, v_at = shared + 2 * Tile::kTileBytes;
  // Addresses in the exchange are computed where they are used: registers are short. `whose` 0: this warp's, 1: the other's.
  const auto exchange_at = [&](int whose, int offset, int of_half) {
    const int thread = int(cuda::recomputed(threadIdx.x)), of = thread / 32 % 2 ^ whose;
    return shared + std::uint32_t(4 * Tile::kTileBytes + thread / 64 * Tile::kPairBytes + thread % 32 * 16 + offset + of * of_half);
  };
  const auto scores_of = [&](int whose) { return exchange_at(whose, 0, Tile::kScoreBytes); };
  const auto weights_of = [&](int whose) { return exchange_at(whose, 2 * Tile::kScoreBytes, 2 * Tile::kFragmentBytes); };

  // One of the four copies of this thread that bring a tile of K or V: rows thread / 32 + 8 · part. Rows that are not there become zero.
  const auto load_part = [&](const cuda::RowsIn& rows, std::uint32_t to, int tile, int part) {
    const std::uint32_t thread = cuda::recomputed(threadIdx.x), row = thread / 32, chunk = thread % 32;
    const char* from = static_cast<const char*>(rows.data) + (std::int64_t(tile * Tile::kKeys + 8 * part) * rows.stride + kv_column) * 2;
    const std::uint32_t of_thread = row * std::uint32_t(rows.stride) * 2 + chunk * cuda::kChunkBytes;
    const int key = tile * Tile::kKeys + 8 * part + int(row);
    const std::uint32_t at = to + std::uint32_t((tile & 1) * Tile::kTileBytes + part * 8 * kRowBytes) + row * kRowBytes + (chunk ^ row) * cuda::kChunkBytes;
    cuda::cp_async_16b_or_zero(at, from + of_thread, unsigned(key) < unsigned(keys) ? 1u : 0u);
  };
  static_assert(Tile::kThreads / 32 == 8 && kRowBytes / cuda::kChunkBytes == 32, "a warp loads a row; eight rows are one period of the swizzle");
  // K of tile + 1 and V of tile, in eight parts.
  const auto load = [&](int tile, int part) {
    if (part < 4) return load_part(launch.k, k_at, tile + 1, part);
    load_part(launch.v, v_at, tile, part - 4);
  };

  // Q to registers.
  std::uint32_t q[kBlocks][kKeptSteps][4];
  const std::uint32_t spilled_at = shared + 4 * Tile::kTileBytes + Tile::kPairs * Tile::kPairBytes;
  load_head_rows<kHeadDim, kQueries, Tile::kThreads>(shared, launch.q, first_query, launch.queries, head * kHeadDim);
  cuda::cp_async_commit();
  cuda::cp_async_wait<0>();
  __syncthreads();
  {
    const std::uint32_t q_lane = shared + std::uint32_t(cuda::swizzled_offset<kRowBytes>(pair_row + lane % 16, half * 16 + lane / 16));
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int step = 0; step < kKeptSteps; ++step) cuda::ldmatrix_x4(q[m][step], (q_lane ^ (2 * step * kChunk)) + m * 16 * kRowBytes);
#pragma unroll
      for (int step = kKeptSteps; step < kSteps; ++step) {
        std::uint32_t a[4];
        cuda::ldmatrix_x4(a, (q_lane ^ (2 * step * kChunk)) + m * 16 * kRowBytes);
        cuda::store_shared_16b(spilled_at + std::uint32_t((step - kKeptSteps) * kBlocks + m) * Tile::kThreads * 16 + threadIdx.x * 16,
                               make_uint4(a[0], a[1], a[2], a[3]));
      }
    }
  }
  __syncthreads();
  // K of the first tile; V of a tile before it, all zero, with weights of zero: the loop begins with a product of nothing.
#pragma unroll
  for (int part = 0; part < 8; ++part) load(-1, part);
  cuda::cp_async_commit();
  for (int m = 0; m < 2; ++m) cuda::store_shared_16b(weights_of(0) + m * Tile::kFragmentBytes, make_uint4(0, 0, 0, 0));

  // exp(scale · (s - max)) = 2^(log2e · scale · (s - max))
  const float to_log2 = __fmul_rn(launch.softmax_scale, 1.4426950408889634f);
  float out[kBlocks][kColumnBlocks][4] = {};
  float reference[kBlocks][2], row_sum[kBlocks][2];  // r, in powers of two; the sum of this warp's weights in this lane
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int r = 0; r < 2; ++r) reference[m][r] = -INFINITY, row_sum[m][r] = 0;
  }
  // Where this lane's ldmatrix rows begin; stepping along a row is one XOR with an immediate (attention_mma.cuh). Own keys come first.
  const std::uint32_t k_lane =
      k_at + std::uint32_t(half * 16 * kRowBytes + cuda::swizzled_offset<kRowBytes>(lane % 8 + lane / 16 * 8, half * 16 + lane / 8 % 2));
  const std::uint32_t v_lane = v_at + std::uint32_t(cuda::swizzled_offset<kRowBytes>(lane % 16, half * 16 + lane / 16));

  float score[kBlocks][2][4];
  const auto clear_scores = [&] {
#pragma unroll
    for (int i = 0; i < kBlocks * 8; ++i) score[i / 8][i / 4 % 2][i % 4] = 0;
  };
  // One of eight steps of Q times 16 keys.
  const auto multiply_step = [&](int step, const std::uint32_t(&b)[4]) {
    std::uint32_t a[kBlocks][4];
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
      if (step < kKeptSteps) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[m][i] = q[m][step < kKeptSteps ? step : 0][i];
      } else {
        const uint4 v = cuda::load_shared_16b(spilled_at + std::uint32_t((step - kKeptSteps) * kBlocks + m) * Tile::kThreads * 16 + threadIdx.x * 16);
        a[m][0] = v.x, a[m][1] = v.y, a[m][2] = v.z, a[m][3] = v.w;
      }
    }
#pragma unroll
    for (int i = 0; i < kTimes * kBlocks; ++i) {
      const int m = i % kBlocks;
      cuda::mma_m16n8k16<Type>(score[m][0], a[m], b[0], b[1]);
      cuda::mma_m16n8k16<Type>(score[m][1], a[m], b[2], b[3]);
    }
  };
  const auto give_scores = [&] {
    const std::uint32_t given = scores_of(0);
#pragma unroll
    for (int i = 0; i < kBlocks * 2; ++i) store_fragment(given + i * Tile::kFragmentBytes, score[i / 2][i % 2]);
  };
  const auto take_scores = [&] {
    const std::uint32_t got = scores_of(1);
#pragma unroll
    for (int i = 0; i < kBlocks * 2; ++i) {
      const uint4 part = cuda::load_shared_16b(got + i * Tile::kFragmentBytes);
      float(&to)[4] = score[i / 2][i % 2];
      to[0] = __uint_as_float(part.x), to[1] = __uint_as_float(part.y), to[2] = __uint_as_float(part.z), to[3] = __uint_as_float(part.w);
    }
  };
  std::uint32_t weights[kBlocks][4];  // of 16 keys
  const auto take_weights = [&](int keys_half) {
    const std::uint32_t weights_at = exchange_at(0, 2 * Tile::kScoreBytes, 0);
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
      const uint4 p = cuda::load_shared_16b(weights_at + (keys_half * 2 + m) * Tile::kFragmentBytes);
      weights[m][0] = p.x, weights[m][1] = p.y, weights[m][2] = p.z, weights[m][3] = p.w;
    }
  };
  // Weights of 16 keys times 16 columns of V.
  const auto multiply_values = [&](int step, const std::uint32_t(&b)[4]) {
#pragma unroll
    for (int i = 0; i < kTimes * kBlocks; ++i) {
      const int m = i % kBlocks;
      cuda::mma_m16n8k16<Type>(out[m][2 * step], weights[m], b[0], b[1]);
      cuda::mma_m16n8k16<Type>(out[m][2 * step + 1], weights[m], b[2], b[3]);
    }
  };
  const auto hide = [&](int tile) {
    const int first_key = tile * Tile::kKeys;
    if (first_key + Tile::kKeys <= keys && (!Causal || first_key + Tile::kKeys <= first_query + 1)) return;
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int key = first_key + half * 16 + i / 4 * 8 + lane % 4 * 2 + i % 2;
        const int query = first_query + pair_row + m * 16 + lane / 4 + i % 4 / 2 * 8;
        if (key >= keys || (Causal && key > query)) score[m][i / 4][i % 4] = -INFINITY;
      }
    }
  };
  const auto largest_of = [&](int m, int r) {
    return fmaxf(fmaxf(score[m][0][2 * r], score[m][0][2 * r + 1]), fmaxf(score[m][1][2 * r], score[m][1][2 * r + 1]));
  };
  // A score of this warp is too far above its reference.
  const auto is_far = [&] {
    float excess = -INFINITY;
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) excess = fmaxf(excess, __fmaf_rn(largest_of(i / 2, i % 2), to_log2, -reference[i / 2][i % 2]));
    return excess > kSlack;
  };
  // Rows for which that holds in either warp take their largest score as reference. What the result must then be multiplied by
  // waits in the exchange.
  const auto follow = [&] {
    float largest[4] = {}, shrink[4] = {};
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) largest[i] = quad_max(largest_of(i / 2, i % 2));
    store_fragment(weights_of(0), largest);  // nobody reads the last tile's weights any more
    meet_pair(barrier);
    const uint4 others = cuda::load_shared_16b(weights_of(1));
    const float theirs[4] = {__uint_as_float(others.x), __uint_as_float(others.y), __uint_as_float(others.z), __uint_as_float(others.w)};
    meet_pair(barrier);
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) {
      float& r = reference[i / 2][i % 2];
      const float row_max = fmaxf(largest[i], theirs[i]);
      // Of this row alone, and by the rounding of is_far: its bits do not depend on the others.
      const float now = __fmaf_rn(row_max, to_log2, -r) > kSlack ? row_max * to_log2 : r;
      shrink[i] = cuda::exp2_fast(r - now);  // 0 for the first tile
      r = now;
      row_sum[i / 2][i % 2] *= shrink[i];
    }
    store_fragment(scores_of(0), shrink);
  };
  const auto rescale = [&] {
    const uint4 waiting = cuda::load_shared_16b(scores_of(0));
    const float shrink[4] = {__uint_as_float(waiting.x), __uint_as_float(waiting.y), __uint_as_float(waiting.z), __uint_as_float(waiting.w)};
#pragma unroll
    for (int i = 0; i < kBlocks * kColumnBlocks; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) out[i / kColumnBlocks][i % kColumnBlocks][e] *= shrink[i / kColumnBlocks * 2 + e / 2];
    }
  };
  const auto give_weights = [&] {
    const std::uint32_t own_weights = weights_of(0);
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
      std::uint32_t p[4];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float low = cuda::exp2_fast(__fmaf_rn(score[m][n][2 * r], to_log2, -reference[m][r]));
          const float high = cuda::exp2_fast(__fmaf_rn(score[m][n][2 * r + 1], to_log2, -reference[m][r]));
          row_sum[m][r] += low;
          row_sum[m][r] += high;
          p[n * 2 + r] = pack_pair<Type>(low, high);
        }
      }
      cuda::store_shared_16b(own_weights + m * Tile::kFragmentBytes, make_uint4(p[0], p[1], p[2], p[3]));
    }
  };

  // 32 fragments a tile, each on its way while the one before it is multiplied: K of the other warp's keys, V of 16 keys, K of the own keys, V of 16 more.
  std::uint32_t fragment[2][4];
  const auto fetch = [&](std::uint32_t k_own, std::uint32_t v_now, int i) {
    const std::uint32_t along = 2 * (i % 8) * kChunk;
    if (i / 8 % 2 == 1) return cuda::ldmatrix_x4_transposed(fragment[i % 2], (v_now ^ along) + i / 16 * 16 * kRowBytes);
    const std::uint32_t from = i >= 16 ? k_own : half == 0 ? k_own + 16 * kRowBytes : k_own - 16 * kRowBytes;
    cuda::ldmatrix_x4(fragment[i % 2], from ^ along);
  };
  static_assert(kSteps == 8 && kColumnBlocks == 16, "as fetch counts");

  for (int tile = -1; tile + 1 < tiles; ++tile) {
    // K of the next tile and V of this one are there; nobody reads K of this tile and V of the last one any more.
    cuda::cp_async_wait<0>();
    __syncthreads();
    const std::uint32_t k_own = cuda::recomputed(k_lane) + std::uint32_t(((tile + 1) & 1) * Tile::kTileBytes);
    const std::uint32_t v_now = cuda::recomputed(v_lane) + std::uint32_t((tile & 1) * Tile::kTileBytes);
    fetch(k_own, v_now, 0);
    clear_scores();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      fetch(k_own, v_now, i + 1);
      multiply_step(i, fragment[i % 2]);
      load(tile + 1, i);
    }
    cuda::cp_async_commit();
    give_scores();
    take_weights(0);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      fetch(k_own, v_now, 8 + i + 1);
      multiply_values(i, fragment[i % 2]);
    }
    meet_pair(barrier);  // the other warp's part of the own scores is there
    take_scores();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      fetch(k_own, v_now, 16 + i + 1);
      multiply_step(i, fragment[i % 2]);
    }
    take_weights(1);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      fetch(k_own, v_now, 24 + i + 1);
      multiply_values(i, fragment[i % 2]);
    }
    hide(tile + 1);
    const bool follows = any_in_pair(barrier, is_far());
    if (follows) follow();
    give_weights();
#pragma unroll
    for (int i = 4; i < 8; ++i) {
      if (i < 7) fetch(k_own, v_now, 24 + i + 1);
      multiply_values(i, fragment[i % 2]);
    }
    if (follows) rescale();
  }
  cuda::cp_async_wait<0>();
  __syncthreads();
  {
    const std::uint32_t v_now = v_lane + std::uint32_t(((tiles - 1) & 1) * Tile::kTileBytes);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      if (i % 8 == 0) take_weights(i / 8);
      cuda::ldmatrix_x4_transposed(fragment[0], (v_now ^ (2 * (i % 8) * kChunk)) + i / 8 * 16 * kRowBytes);
      multiply_values(i % 8, fragment[0]);
    }
  }

  // Both warps need the sum of both's weights. Then each turns its columns around in the pair's part of what K and V have left, so that stores are whole
  // 16-byte chunks.
  float sums[4] = {};
#pragma unroll
  for (int i = 0; i < 2 * kBlocks; ++i) sums[i] = quad_sum(row_sum[i / 2][i % 2]);
  store_fragment(scores_of(0), sums);
  __syncthreads();
  const uint4 others = cuda::load_shared_16b(scores_of(1));
  const float theirs[4] = {__uint_as_float(others.x), __uint_as_float(others.y), __uint_as_float(others.z), __uint_as_float(others.w)};
#pragma unroll
  for (int i = 0; i < 2 * kBlocks; ++i) {
    const int m = i / 2, r = i % 2;
    const float inverse = 1.0f / (sums[i] + theirs[i]);
    const int row = pair_row + m * 16 + lane / 4 + r * 8;
#pragma unroll
    for (int d = 0; d < kColumnBlocks; ++d) {
      cuda::store_shared_4b(shared + std::uint32_t(cuda::swizzled_offset<kRowBytes>(row, half * 16 + d) + lane % 4 * 4),
                            pack_pair<Type>(out[m][d][2 * r] * inverse, out[m][d][2 * r + 1] * inverse));
    }
  }
  __syncwarp();
#pragma unroll 4
  for (int i = lane; i < 16 * kBlocks * 16; i += 32) {
    const int row = pair_row + i / 16, chunk = half * 16 + i % 16;
    const std::int64_t m = first_query + row;
    if (m >= launch.queries) continue;
    const uint4 value = cuda::load_shared_16b(shared + std::uint32_t(cuda::swizzled_offset<kRowBytes>(row, chunk)));
    *reinterpret_cast<uint4*>(static_cast<char*>(launch.y.data) + (m * launch.y.stride + head * kHeadDim) * 2 + chunk * cuda::kChunkBytes) = value;
  }
}

template <cuda::RowType Type, bool Causal, int kTimes = 1>
__global__ void __launch_bounds__(AttentionPairsTile::kThreads, 1) attention_pairs_kernel(const AttentionPairsLaunch launch) {
#if __CUDA_ARCH__ >= 800
  cuda::wait_for_predecessor();
  cuda::let_successor_begin();
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t shared_at = cuda::shared_address(shared);
  const int index = int(blockIdx.x), beyond = index - launch.whole, tile = beyond < 0 ? index : launch.whole + beyond / 2;
  const int head = tile / launch.q_tiles;
  const int first_query = tile % launch.q_tiles * AttentionPairsTile::kQueries;
  if (beyond < 0) return attend_in_pairs<Type, Causal, 2, kTimes>(launch.attention, shared_at, head, first_query);
  const int first = first_query + beyond % 2 * (AttentionPairsTile::kQueries / 2);
  if (first < launch.attention.queries) attend_in_pairs<Type, Causal, 1, kTimes>(launch.attention, shared_at, head, first);
#endif
}

}  // namespace octavo::device
