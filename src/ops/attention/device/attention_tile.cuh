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

// Rows [first, first + kRows) of a head into swizzled shared memory; rows from `count` on become zero.
template <int HeadDim, int kRows, int kThreads>
__device__ __forceinline__ void load_head_rows(std::uint32_t to, const cuda::RowsIn& rows, std::int64_t first, std::int64_t count, int column) {
  constexpr int kRowChunks = HeadDim * 2 / cuda::kChunkBytes;
  static_assert(kRows * kRowChunks % kThreads == 0, "every thread copies the same number of chunks");
  constexpr int kRowsAtOnce = kThreads / kRowChunks;  // a thread stays in its chunk column
  static_assert(kThreads % kRowChunks == 0, "threads take whole rows");
  const int first_row = int(cuda::recomputed(threadIdx.x)) / kRowChunks, chunk = int(threadIdx.x) % kRowChunks;
  const char* from = static_cast<const char*>(rows.data) + ((first + first_row) * rows.stride + column) * 2 + chunk * cuda::kChunkBytes;
  const int left = int(count - first < kRows ? count - first : kRows);  // rows that are there
#pragma unroll
  for (int row = first_row, i = 0; i < kRows / kRowsAtOnce; ++i, row += kRowsAtOnce, from += kRowsAtOnce * rows.stride * 2) {
    const bool is_there = row < left;
    cuda::cp_async_16b_or_zero(to + std::uint32_t(cuda::swizzled_offset<HeadDim * 2>(row, chunk)), is_there ? from : rows.data, is_there ? 1u : 0u);
  }
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

}  // namespace octavo::device
