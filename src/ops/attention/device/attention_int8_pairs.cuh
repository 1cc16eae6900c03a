// Attention with int8 scores and head_dim 256 in 99 KB, for sm_80 and later: scores by m16n8k32, weights times values by m16n8k16 in float16. Two warps share
// 32 queries, as in attention_pairs.cuh; each has half of the columns of Q, K, V and of the result.
//   a CTA           128 queries of one head, eight warps; one a SM
//   shared memory   K 2 x 32 keys of 8 KB with their scales, V 2 x 32 keys of 16 KB; 9 KB a pair of warps to exchange through
//   a turn          scores of tile j, weights of tile j - 1 and P V of tile j - 2, so that nothing waits for what has just been computed:
//                     1  this warp's columns of the scores of the other warp's 16 keys: given away; among it the weights of the own keys of tile j - 1
//                     2  P V of half the columns.  The next K and V begin to load
//                     3  the pair meets.  The scores of the own 16 keys, beginning with what the other warp gave (int32: the order is free)
//                     4  P V of the other columns, and among it the keys' scales and the largest score
//                   one barrier of the CTA and one of the pair; whether a row's reference must follow is known before the turn that makes the weights
// P V is summed in float16 over 32 keys and then added to float32: half the conversions of sums over 16, and registers for one group of 16 columns.
// Weights are 2^(s - r) with a reference r for each row that follows the row's largest score only when that is 2^kSlack above it: any r gives the same
// quotient of sums. 32 terms of at most 2^kSlack · 32 (attention_int8.h: unit) are at most 32768, half of what float16 holds.
#pragma once

#include <cfloat>
#include <cstdint>

#include "cuda/convert.cuh"
#include "cuda/cp_async.cuh"
#include "cuda/exp2.cuh"
#include "cuda/ldmatrix.cuh"
#include "cuda/mma_float.cuh"
#include "cuda/mma_s8.cuh"
#include "cuda/overlap.cuh"
#include "cuda/row/reduce.cuh"
#include "cuda/shared.cuh"
#include "cuda/swizzle.h"
#include "ops/attention/attention_int8_launch.h"
#include "ops/attention/device/attention_tile.cuh"

namespace octavo::device {

using AttentionInt8PairsLaunch = PairsLaunch<AttentionInt8Launch>;

struct Int8PairsTile {
  static constexpr int kHeadDim = 256;
  static constexpr int kPairs = 4;
  static constexpr int kThreads = kPairs * 64;
  static constexpr int kKeys = 32;
  static constexpr int kQueries = kPairs * 32;
  static constexpr int kKBytes = kKeys * kHeadDim;
  static constexpr int kVBytes = kKeys * kHeadDim * 2;
  static constexpr int kScaleBytes = kKeys * 4;
  static constexpr int kFragmentBytes = 512;  // 16 bytes a lane
  // What a pair exchanges, in slots of a fragment of either warp: four of scores, two of weights, one of what a row needs once, two of what waits for the next
  // turn.
  static constexpr int kSlotBytes = 2 * kFragmentBytes, kWeightsAt = 4 * kSlotBytes, kKeptAt = 6 * kSlotBytes, kParkedAt = 7 * kSlotBytes,
                       kPairBytes = 9 * kSlotBytes;
  static constexpr int kVAt = 2 * kKBytes, kExchangeAt = kVAt + 2 * kVBytes, kScaleAt = kExchangeAt + kPairs * kPairBytes;
  static constexpr int kPlaceAt = kScaleAt + 2 * kScaleBytes;  // head, its K and V, first query
  static constexpr int kSharedBytes = kPlaceAt + 16;
  static_assert(kSharedBytes <= 99 * 1024, "fits the smallest Ampere");
  static_assert(kQueries * kHeadDim <= kExchangeAt, "Q passes through the place of K and V");
  static_assert(kQueries == kPairsQueries, "as pairs_launch counts");
};

// kBlocks · 16 queries a pair: 2, or 1 for half a tile. A row's bits do not depend on it.
// kTimes: for a bench alone. Each group of four products is done so often, which gives it the clocks that it takes on another GPU, and a result of no meaning.
template <int kBlocks, int kTimes>
__device__ __forceinline__ void attend_int8_in_pairs(const AttentionInt8Launch& launch, std::uint32_t shared, int head, int first_query) {
  using Tile = Int8PairsTile;
  constexpr int kHeadDim = Tile::kHeadDim, kQueries = Tile::kPairs * 16 * kBlocks;
  constexpr int kSteps = kHeadDim / 2 / 32;   // of 32 columns, in a warp's half
  constexpr int kGroups = kHeadDim / 2 / 16;  // of 16 columns
  constexpr int kSlices = kBlocks * 2;        // of 16 queries and 8 keys, in the scores of a warp's own keys
  constexpr std::uint32_t kChunk = cuda::kChunkBytes;
  constexpr float kSlack = 5;
  static_assert(kSteps == 4 && kGroups == 8, "as the parts of a turn count");
  const int lane = int(threadIdx.x) % 32, half = int(threadIdx.x) / 32 % 2, pair = int(threadIdx.x) / 64;
  const int pair_row = pair * 16 * kBlocks;
  const int kv_head = head / (launch.heads / launch.kv_heads), keys = int(launch.keys);
  // Where this lane has its 16 bytes of this warp's first slot (0) or of the other's (1).
  const std::uint32_t own_slot = shared + std::uint32_t(Tile::kExchangeAt + pair * Tile::kPairBytes + half * Tile::kFragmentBytes + lane * 16);
  const auto exchange = [&](int whose) { return whose == 0 ? own_slot : own_slot ^ Tile::kFragmentBytes; };
  // Registers are short. What a turn begins with waits in shared memory: where this lane's ldmatrix rows begin in K and V, own keys first (stepping along a
  // row is one XOR with an immediate, attention_mma.cuh), and the thread's number, from which the assembler makes addresses anew since it does not know it;
  // then, of this thread's copies, the number of the 16-byte chunk among all of K and of V for the first tile, and where it goes.
  static_assert(Tile::kThreads == 256 && kHeadDim == 256, "a warp loads two rows of K or one of V; eight rows are one period of the swizzle");
  std::uint32_t keys_lane, values_lane, thread;
  const auto take_parked = [&] {
    const uint4 parked = cuda::load_shared_16b(exchange(0) + Tile::kParkedAt);
    keys_lane = parked.y, values_lane = parked.z, thread = parked.w;
  };
  {
    const int id = int(threadIdx.x), row = id / 32, k_row = id / 16;
    cuda::store_shared_16b(
        exchange(0) + Tile::kParkedAt,
        make_uint4(0, shared + std::uint32_t(half * 16 * kHeadDim + cuda::swizzled_offset<kHeadDim>(lane % 8 + lane / 16 * 8, half * 8 + lane / 8 % 2)),
                   shared + std::uint32_t(Tile::kVAt + cuda::swizzled_offset<kHeadDim * 2>(lane % 16, half * 16 + lane / 16)), threadIdx.x));
    cuda::store_shared_16b(
        exchange(0) + Tile::kParkedAt + Tile::kSlotBytes,
        make_uint4(std::uint32_t((k_row * launch.kv_heads + kv_head) * 16 + id % 16), shared + std::uint32_t(cuda::swizzled_offset<kHeadDim>(k_row, id % 16)),
                   std::uint32_t((row * launch.kv_heads + kv_head) * 32 + id % 32),
                   shared + std::uint32_t(Tile::kVAt + cuda::swizzled_offset<kHeadDim * 2>(row, id % 32))));
  }
  if (threadIdx.x == 0) cuda::store_shared_16b(shared + Tile::kPlaceAt, make_uint4(unsigned(head), unsigned(kv_head), unsigned(first_query), 0));
  take_parked();
  const auto meet = [&] { meet_pair(int(thread / 64 + 1)); };

  // A tile's K and V begin to load. Rows that are not there become zero.
  const auto load = [&](int k_tile, int v_tile) {
    const uint4 parked = cuda::load_shared_16b(exchange(0) + Tile::kParkedAt + Tile::kSlotBytes);
    const std::uint32_t row_chunks = std::uint32_t(launch.kv_heads) * 16;
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const int row = k_tile * Tile::kKeys + part * 16;
      const std::uint32_t from = parked.x + std::uint32_t(row) * row_chunks;
      cuda::cp_async_16b_or_zero(parked.y + std::uint32_t((k_tile & 1) * Tile::kKBytes + part * 16 * kHeadDim),
                                 reinterpret_cast<const char*>(launch.k) + std::uint64_t(from) * kChunk, row + int(thread / 16) < keys ? 1u : 0u);
    }
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int row = v_tile * Tile::kKeys + part * 8;
      const std::uint32_t from = parked.z + std::uint32_t(row) * row_chunks * 2;
      cuda::cp_async_16b_or_zero(parked.w + std::uint32_t((v_tile & 1) * Tile::kVBytes + part * 8 * kHeadDim * 2),
                                 reinterpret_cast<const char*>(launch.v) + std::uint64_t(from) * kChunk,
                                 unsigned(row + int(thread / 32)) < unsigned(keys) ? 1u : 0u);
    }
    if (thread < Tile::kKeys) {
      const std::uint32_t key = std::uint32_t(k_tile * Tile::kKeys) + thread;
      const std::uint32_t of_head = cuda::load_shared_4b(shared + Tile::kPlaceAt + 4) * std::uint32_t(keys);
      cuda::cp_async_4b_or_zero(shared + std::uint32_t(Tile::kScaleAt + (k_tile & 1) * Tile::kScaleBytes) + thread * 4, launch.k_scale + (of_head + key),
                                key < std::uint32_t(keys) ? 1u : 0u);
    }
    cuda::cp_async_commit();
  };

  // Q to registers.
  std::uint32_t q[kBlocks][kSteps][4];
  load_tile_rows<kHeadDim, kQueries, Tile::kThreads>(shared, launch.q + head * kHeadDim, std::int64_t(launch.heads) * kHeadDim, first_query, launch.queries);
  cuda::cp_async_commit();
  cuda::cp_async_wait<0>();
  __syncthreads();
  {
    const std::uint32_t q_lane = shared + std::uint32_t(cuda::swizzled_offset<kHeadDim>(pair_row + lane % 16, half * 8 + lane / 16));
#pragma unroll
    for (int i = 0; i < kBlocks * kSteps; ++i)
      cuda::ldmatrix_x4(q[i / kSteps][i % kSteps], (q_lane ^ (2 * (i % kSteps) * kChunk)) + i / kSteps * 16 * kHeadDim);
  }
  __syncthreads();
  load(0, -1);

  // exp(softmax_scale · q_scale · s) = 2^(to_log2 · s). Not less than the smallest normal number, so that -infinity stays what it is; a NaN passes.
  float to_log2[kBlocks][2];
  float reference[kBlocks][2], row_sum[kBlocks][2];  // r, in powers of two, -FLT_MAX before the first tile; the sum of this warp's weights in this lane
#pragma unroll
  for (int i = 0; i < 2 * kBlocks; ++i) {
    const std::int64_t query = first_query + pair_row + i / 2 * 16 + lane / 4 + i % 2 * 8;
    const float q_scale = query < launch.queries ? launch.q_scale[head * launch.queries + query] : 0.0f;
    const float factor = __fmul_rn(__fmul_rn(q_scale, launch.softmax_scale), 1.4426950408889634f);
    to_log2[i / 2][i % 2] = factor < FLT_MIN ? FLT_MIN : factor;
    reference[i / 2][i % 2] = -FLT_MAX, row_sum[i / 2][i % 2] = 0;
  }
  float out[kBlocks][2 * kGroups][4] = {};
  // 24 fragments a turn, each on its way while the one before it is multiplied: K of the other warp's keys, V, K of the own keys, V.
  std::uint32_t fragment[2][4];
  // The assembler multiplies across these lines only so far as it has registers: otherwise it goes far ahead of the conversions of sums, and spills. The grid
  // is one-dimensional; nothing ever exits here.
  const auto fence = [] {
    if (blockIdx.y != 0) asm volatile("exit;");
  };
  const auto fetch = [&](std::uint32_t k_own, std::uint32_t v_now, int i) {
    if (i < 4 || (i >= 12 && i < 16)) {
      const std::uint32_t from = i >= 12 ? k_own : k_own + 16 * kHeadDim - thread / 32 % 2 * 32 * kHeadDim;
      return cuda::ldmatrix_x4(fragment[i % 2], from ^ (2 * (i % 4) * kChunk));
    }
    const int of_values = i < 12 ? i - 4 : i - 8;  // group · 2 + half of the keys
    cuda::ldmatrix_x4_transposed(fragment[i % 2], (v_now ^ (of_values / 2 * 2 * kChunk)) + of_values % 2 * 16 * kHeadDim * 2);
  };

  int dot[kBlocks][2][4];
  const auto clear_dots = [&] {
#pragma unroll
    for (int i = 0; i < kSlices * 4; ++i) dot[i / 8][i / 4 % 2][i % 4] = 0;
  };
  // 32 columns of Q times 16 keys.
  const auto multiply_keys = [&](int step, const std::uint32_t(&b)[4]) {
#pragma unroll
    for (int i = 0; i < kTimes * kBlocks; ++i) {
      const int m = i % kBlocks;
      cuda::mma_m16n8k32_s8(dot[m][0], q[m][step], b[0], b[1]);
      cuda::mma_m16n8k32_s8(dot[m][1], q[m][step], b[2], b[3]);
    }
  };
  const auto give_dots = [&] {
    const std::uint32_t given = exchange(0);
#pragma unroll
    for (int i = 0; i < kSlices; ++i) {
      const int(&d)[4] = dot[i / 2][i % 2];
      cuda::store_shared_16b(given + i * Tile::kSlotBytes, make_uint4(unsigned(d[0]), unsigned(d[1]), unsigned(d[2]), unsigned(d[3])));
    }
  };
  const auto take_dots = [&] {
    const std::uint32_t got = exchange(1);
#pragma unroll
    for (int i = 0; i < kSlices; ++i) {
      const uint4 part = cuda::load_shared_16b(got + i * Tile::kSlotBytes);
      int(&d)[4] = dot[i / 2][i % 2];
      d[0] = int(part.x), d[1] = int(part.y), d[2] = int(part.z), d[3] = int(part.w);
    }
  };

  float score[kBlocks][2][4];
  // 16 queries and 8 keys of what multiply_keys made of `tile`: times the keys' scales; keys that are not there get -infinity.
  const auto scale_slice = [&](int tile, int slice) {
    const int n = slice / kBlocks, m = slice % kBlocks;
    const int first = int(thread / 32 % 2 * 16 + thread % 4 * 2), left = keys - tile * Tile::kKeys - n * 8 - first;
    const float2 scale = cuda::load_shared_two(shared + std::uint32_t(Tile::kScaleAt + (tile & 1) * Tile::kScaleBytes + n * 32 + first * 4));
#pragma unroll
    for (int i = 0; i < 4; ++i) score[m][n][i] = i % 2 < left ? float(dot[m][n][i]) * (i % 2 == 0 ? scale.x : scale.y) : -INFINITY;
  };
  const auto largest_of = [&](int m, int r) {
    return fmaxf(fmaxf(score[m][0][2 * r], score[m][0][2 * r + 1]), fmaxf(score[m][1][2 * r], score[m][1][2 * r + 1]));
  };
  // Tells the pair whether a score of this warp is too far above its reference.
  const auto tell_whether_far = [&] {
    float excess = -INFINITY;
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) excess = fmaxf(excess, __fmaf_rn(largest_of(i / 2, i % 2), to_log2[i / 2][i % 2], -reference[i / 2][i % 2]));
    cuda::store_shared_4b(exchange(0) + Tile::kParkedAt, __any_sync(cuda::kAllLanes, excess > kSlack) != 0 ? 1u : 0u);
  };
  const auto is_far_in_pair = [&] { return (cuda::load_shared_4b(exchange(0) + Tile::kParkedAt) | cuda::load_shared_4b(exchange(1) + Tile::kParkedAt)) != 0; };
  // Rows for which that holds in either warp take their largest score as reference. What the result must then be multiplied by waits in the exchange.
  const auto follow = [&] {
    float largest[4] = {}, theirs[4], shrink[4] = {};
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) largest[i] = quad_max(largest_of(i / 2, i % 2));
    store_fragment(exchange(0) + Tile::kKeptAt, largest);
    meet();
    load_fragment(exchange(1) + Tile::kKeptAt, theirs);
    meet();
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) {
      float& r = reference[i / 2][i % 2];
      const float row_max = fmaxf(largest[i], theirs[i]), factor = to_log2[i / 2][i % 2];
      // Of this row alone, and by the same rounding as in tell_whether_far: its bits do not depend on the others.
      const float now = __fmaf_rn(row_max, factor, -r) > kSlack ? row_max * factor : r;
      shrink[i] = cuda::exp2_fast(r - now);  // 0 for the first tile
      r = now;
      row_sum[i / 2][i % 2] *= shrink[i];
    }
    store_fragment(exchange(0) + Tile::kKeptAt, shrink);
  };
  const auto rescale = [&] {
    float shrink[4];
    load_fragment(exchange(0) + Tile::kKeptAt, shrink);
#pragma unroll
    for (int i = 0; i < kBlocks * 2 * kGroups; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) out[i / (2 * kGroups)][i % (2 * kGroups)][e] *= shrink[i / (2 * kGroups) * 2 + e / 2];
    }
  };

  std::uint32_t own_weights[kBlocks][4];  // of this warp's 16 keys, until the other warp has read the ones before
  const auto weigh_slice = [&](int slice) {
    const int n = slice / kBlocks, m = slice % kBlocks;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float low = cuda::exp2_fast(__fmaf_rn(score[m][n][2 * r], to_log2[m][r], -reference[m][r]));
      const float high = cuda::exp2_fast(__fmaf_rn(score[m][n][2 * r + 1], to_log2[m][r], -reference[m][r]));
      row_sum[m][r] += low;
      row_sum[m][r] += high;
      own_weights[m][n * 2 + r] = cuda::pack_f16x2(low, high);
    }
  };
  const auto give_weights = [&] {
    const std::uint32_t given = exchange(0) + Tile::kWeightsAt;
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
      const std::uint32_t(&p)[4] = own_weights[m];
      cuda::store_shared_16b(given + m * Tile::kSlotBytes, make_uint4(p[0], p[1], p[2], p[3]));
    }
  };
  std::uint32_t weights[kBlocks][2][4];  // of 32 keys
  const auto take_weights = [&] {
    const std::uint32_t of_first = (own_slot & ~std::uint32_t(Tile::kFragmentBytes)) + Tile::kWeightsAt;
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) {
      const uint4 p = cuda::load_shared_16b(of_first + i / kBlocks * Tile::kFragmentBytes + i % kBlocks * Tile::kSlotBytes);
      std::uint32_t(&w)[4] = weights[i % kBlocks][i / kBlocks];
      w[0] = p.x, w[1] = p.y, w[2] = p.z, w[3] = p.w;
    }
  };
  // Float16 sums of a group of 16 columns. Those of the group before go into the result where their registers are needed: three products later.
  std::uint32_t sum[kBlocks][2][2];
  const auto add_sums = [&](int group, int m) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = i / 2, r = i % 2;
      const float2 two = __half22float2(reinterpret_cast<const __half2&>(sum[m][n][r]));
      out[m][2 * group + n][2 * r] += two.x;
      out[m][2 * group + n][2 * r + 1] += two.y;
    }
  };
  const auto multiply_values = [&](int group, int of_keys, const std::uint32_t(&b)[4]) {
#pragma unroll
    for (int i = 0; i < kTimes * kBlocks; ++i) {
      const int m = i % kBlocks;
      if (of_keys == 0 && i < kBlocks) {
        if (group > 0) add_sums(group - 1, m);
        sum[m][0][0] = sum[m][0][1] = sum[m][1][0] = sum[m][1][1] = 0;
      }
      cuda::mma_m16n8k16_f16_sums(sum[m][0], weights[m][of_keys], b[0], b[1]);
      cuda::mma_m16n8k16_f16_sums(sum[m][1], weights[m][of_keys], b[2], b[3]);
    }
  };
  const auto add_last_sums = [&] {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) add_sums(kGroups - 1, m);
  };

  // Scores of the first tile. K of the second and V of a tile before the first, all zero, with weights of zero: the first turn's P V is a product of nothing.
  cuda::cp_async_wait<0>();
  __syncthreads();
  load(1, -1);
#pragma unroll
  for (int whose = 1; whose >= 0; --whose) {
    if (whose == 1) {
      clear_dots();
    } else {
      give_dots();
      meet();
      take_dots();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      fetch(keys_lane, 0, whose == 1 ? i : 12 + i);
      multiply_keys(i, fragment[i % 2]);
    }
  }
#pragma unroll
  for (int slice = 0; slice < kSlices; ++slice) scale_slice(0, slice);
  tell_whether_far();
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int i = 0; i < 4; ++i) own_weights[m][i] = 0;
  }
  give_weights();

  int tile = 1;
  do {
    // K of this tile and V of the tile two before are there; nobody reads K of the last tile and V of the one three before any more.
    take_parked();
    cuda::cp_async_wait<0>();
    __syncthreads();
    const std::uint32_t k_own = keys_lane + std::uint32_t((tile & 1) * Tile::kKBytes), v_now = values_lane + std::uint32_t((tile & 1) * Tile::kVBytes);
    fetch(k_own, v_now, 0);
    const bool follows = is_far_in_pair();
    if (follows) follow();
    clear_dots();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      fetch(k_own, v_now, i + 1);
      multiply_keys(i, fragment[i % 2]);
      if (i < kSlices) weigh_slice(i);
    }
    fence();
    give_dots();
    take_weights();
#pragma unroll
    for (int group = 0; group < 4; ++group) {
      fetch(k_own, v_now, 4 + 2 * group + 1);
      if (group == 2) fence();
      multiply_values(group, 0, fragment[0]);
      if (group == 1) load(tile + 1, tile - 1);
      fetch(k_own, v_now, 4 + 2 * group + 2);
      multiply_values(group, 1, fragment[1]);
    }
    fence();
    meet();  // the other warp's part of the own scores is there, and it has taken the weights
    give_weights();
    take_dots();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      fetch(k_own, v_now, 12 + i + 1);
      multiply_keys(i, fragment[i % 2]);
    }
#pragma unroll
    for (int group = 4; group < 8; ++group) {
      if (group == 6) fence();
      fetch(k_own, v_now, 8 + 2 * group + 1);
      multiply_values(group, 0, fragment[0]);
#pragma unroll
      for (int i = 0; group < 6 && i < kBlocks; ++i) scale_slice(tile, (group - 4) * kBlocks + i);
      if (group == 6) tell_whether_far();
      if (group < 7) fetch(k_own, v_now, 8 + 2 * group + 2);
      multiply_values(group, 1, fragment[1]);
    }
    add_last_sums();
    if (follows) rescale();
    ++tile;
  } while ((tile - 1) * Tile::kKeys < keys);  // the last turn's scores are of keys that are not there

  take_parked();
  cuda::cp_async_wait<0>();
  __syncthreads();
  take_weights();
  {
    const std::uint32_t v_now = values_lane + std::uint32_t((tile & 1) * Tile::kVBytes);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int of_keys = 0; of_keys < 2; ++of_keys) {
        fetch(0, v_now, group < 4 ? 4 + 2 * group + of_keys : 8 + 2 * group + of_keys);
        multiply_values(group, of_keys, fragment[of_keys]);
      }
    }
    add_last_sums();
  }

  // Both warps need the sum of both's weights.
  float sums[4] = {}, theirs[4];
#pragma unroll
  for (int i = 0; i < 2 * kBlocks; ++i) sums[i] = quad_sum(row_sum[i / 2][i % 2]);
  store_fragment(exchange(0) + Tile::kKeptAt, sums);
  meet();
  load_fragment(exchange(1) + Tile::kKeptAt, theirs);
  const uint4 place = cuda::load_shared_16b(shared + Tile::kPlaceAt);
  const float inverse_unit = __fdiv_rn(1.0f, launch.v_unit[place.y]);
#pragma unroll
  for (int i = 0; i < 2 * kBlocks; ++i) {
    const int m = i / 2, r = i % 2;
    const float inverse = __fdiv_rn(1.0f, sums[i] + theirs[i]) * inverse_unit;
    const std::int64_t query = std::int64_t(place.z) + int(thread / 64 * 16 * kBlocks + thread % 32 / 4) + m * 16 + r * 8;
    if (query >= launch.queries) continue;
    const std::int64_t at = query * launch.y.stride + int(place.x) * kHeadDim + int(thread / 32 % 2 * (kHeadDim / 2) + thread % 4 * 2);
#pragma unroll
    for (int d = 0; d < 2 * kGroups; ++d) {
      const float low = out[m][d][2 * r] * inverse, high = out[m][d][2 * r + 1] * inverse;
      if (launch.y.type == cuda::RowType::f32) {
        *reinterpret_cast<float2*>(static_cast<float*>(launch.y.data) + at + d * 8) = make_float2(low, high);
      } else {
        *reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(launch.y.data) + at + d * 8) =
            launch.y.type == cuda::RowType::bf16 ? cuda::pack_bf16x2(low, high) : cuda::pack_f16x2(low, high);
      }
    }
  }
}

template <int kTimes = 1>
__global__ void __launch_bounds__(Int8PairsTile::kThreads, 1) attention_int8_pairs_kernel(const AttentionInt8PairsLaunch launch) {
#if __CUDA_ARCH__ >= 800
  cuda::wait_for_predecessor();
  cuda::let_successor_begin();
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t shared_at = cuda::shared_address(shared);
  const int index = int(blockIdx.x), beyond = index - launch.whole, tile = beyond < 0 ? index : launch.whole + beyond / 2;
  const int head = tile / launch.q_tiles;
  const int first_query = tile % launch.q_tiles * Int8PairsTile::kQueries;
  if (beyond < 0) return attend_int8_in_pairs<2, kTimes>(launch.attention, shared_at, head, first_query);
  const int first = first_query + beyond % 2 * (Int8PairsTile::kQueries / 2);
  if (first < launch.attention.queries) attend_int8_in_pairs<1, kTimes>(launch.attention, shared_at, head, first);
#endif
}

}  // namespace octavo::device
