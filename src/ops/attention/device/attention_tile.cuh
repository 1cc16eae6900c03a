// What the mma.sync bodies of attention share: rows of a head into shared memory, pairs of results into a word, reductions over the lanes of a row.
#pragma once

#include <cstdint>

#include "cuda/convert.cuh"
#include "cuda/cp_async.cuh"
#include "cuda/row/reduce.cuh"
#include "cuda/row/row.h"
#include "cuda/shared.cuh"
#include "cuda/swizzle.h"

namespace octavo::device {

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

// The same for the columns of a head of 16-bit rows.
template <int HeadDim, int kRows, int kThreads>
__device__ __forceinline__ void load_head_rows(std::uint32_t to, const cuda::RowsIn& rows, std::int64_t first, std::int64_t count, int column) {
  load_tile_rows<HeadDim * 2, kRows, kThreads>(to, static_cast<const char*>(rows.data) + column * 2, rows.stride * 2, first, count);
}

template <cuda::RowType Type>
__device__ __forceinline__ std::uint32_t pack_pair(float low, float high) {
  if constexpr (Type == cuda::RowType::bf16) return cuda::pack_bf16x2(low, high);
  return cuda::pack_f16x2(low, high);
}

// Largest and sum over the four lanes that share a row of accumulators.
__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(cuda::kAllLanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(cuda::kAllLanes, value, 2));
}
__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(cuda::kAllLanes, value, 1);
  return value + __shfl_xor_sync(cuda::kAllLanes, value, 2);
}

// ------------------------------------------------------------------------------------------------ pairs of warps that share 32 queries

constexpr int kPairsQueries = 128;  // of four pairs, which are a CTA

template <class Launch>
struct PairsLaunch {
  Launch attention{};
  int q_tiles = 0;  // of 128 queries, a head
  int whole = 0;    // CTAs that take 128 queries; behind them two each take the halves of a tile

  int ctas() const { return 2 * q_tiles * attention.heads - whole; }
};

// Tiles that do not fill the GPU's last wave are cut in two, if the halves still fit in it and `may_cut`.
template <class Launch>
PairsLaunch<Launch> pairs_launch(const Launch& launch, int sms, bool may_cut) {
  PairsLaunch<Launch> pairs{.attention = launch, .q_tiles = int((launch.queries + kPairsQueries - 1) / kPairsQueries)};
  const int tiles = pairs.q_tiles * launch.heads, rest = tiles % sms;
  pairs.whole = 2 * rest <= sms && may_cut ? tiles - rest : tiles;
  return pairs;
}

// Waits for both warps of a pair, `id` 1 to 15; memory written before is seen after.
__device__ __forceinline__ void meet_pair(int id) { asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory"); }

__device__ __forceinline__ void store_fragment(std::uint32_t to, const float (&f)[4]) {
  cuda::store_shared_16b(to, make_uint4(__float_as_uint(f[0]), __float_as_uint(f[1]), __float_as_uint(f[2]), __float_as_uint(f[3])));
}

__device__ __forceinline__ void load_fragment(std::uint32_t from, float (&f)[4]) {
  const uint4 v = cuda::load_shared_16b(from);
  f[0] = __uint_as_float(v.x), f[1] = __uint_as_float(v.y), f[2] = __uint_as_float(v.z), f[3] = __uint_as_float(v.w);
}

}  // namespace octavo::device
