// Attention for any types and sizes, without tensor cores: a warp holds one query and its output row, tiles of keys and values pass through shared memory.
#pragma once

#include <cstdint>

#include "cuda/row/reduce.cuh"
#include "cuda/row/values.cuh"
#include "ops/attention/attention_launch.h"

namespace octavo::device {

inline constexpr int kPlainQueries = 8;  // warps of a CTA, a query each
inline constexpr int kPlainThreads = kPlainQueries * 32;
inline constexpr int kPlainSharedFloats = 10 * 1024;  // 40 KB: what every launch may have

// Keys that fit shared memory beside their values.
OCTAVO_HOST_DEVICE int plain_tile_keys(int head_dim) {
  const int fit = kPlainSharedFloats / (2 * head_dim);
  return fit > 32 ? 32 : fit;
}

// kValues: columns a lane holds, lane, lane + 32, …
template <int kValues>
__global__ void __launch_bounds__(kPlainThreads) attention_plain_kernel(const AttentionLaunch launch) {
  __shared__ float tile[kPlainSharedFloats];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int head = int(blockIdx.y), columns = launch.head_dim;
  const int q_column = head * columns, kv_column = head / (launch.heads / launch.kv_heads) * columns;
  const std::int64_t query = std::int64_t(blockIdx.x) * kPlainQueries + warp;
  const std::int64_t last_query = std::int64_t(blockIdx.x) * kPlainQueries + kPlainQueries - 1;
  const std::int64_t keys = launch.causal && last_query + 1 < launch.keys ? last_query + 1 : launch.keys;
  const int tile_keys = plain_tile_keys(columns);
  float* values = tile + tile_keys * columns;

  float q[kValues], out[kValues];
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    const int d = lane + 32 * i;
    q[i] = query < launch.queries && d < columns ? cuda::load_one(launch.q.data, launch.q.type, query * launch.q.stride + q_column + d) : 0.0f;
    out[i] = 0;
  }
  float highest = -INFINITY, total = 0;
  for (std::int64_t first = 0; first < keys; first += tile_keys) {
    const int count = int(keys - first < tile_keys ? keys - first : tile_keys);
    for (int i = int(threadIdx.x); i < count * columns; i += kPlainThreads) {
      const int key = i / columns, d = i % columns;
      tile[i] = cuda::load_one(launch.k.data, launch.k.type, (first + key) * launch.k.stride + kv_column + d);
      values[i] = cuda::load_one(launch.v.data, launch.v.type, (first + key) * launch.v.stride + kv_column + d);
    }
    __syncthreads();
    for (int key = 0; key < count; ++key) {
      if (launch.causal && first + key > query) break;
      float dot = 0;
#pragma unroll
      for (int i = 0; i < kValues; ++i) {
        const int d = lane + 32 * i;
        if (d < columns) dot = __fmaf_rn(q[i], tile[key * columns + d], dot);
      }
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) dot += __shfl_xor_sync(cuda::kAllLanes, dot, distance);
      const float score = launch.softmax_scale * dot;
      const float larger = fmaxf(highest, score);
      const float shrink = expf(highest - larger), p = expf(score - larger);
      highest = larger;
      total = __fmaf_rn(total, shrink, p);
#pragma unroll
      for (int i = 0; i < kValues; ++i) {
        const int d = lane + 32 * i;
        if (d < columns) out[i] = __fmaf_rn(out[i], shrink, p * values[key * columns + d]);
      }
    }
    __syncthreads();
  }
  if (query >= launch.queries) return;
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    const int d = lane + 32 * i;
    if (d < columns) cuda::store_one(launch.y.data, launch.y.type, query * launch.y.stride + q_column + d, out[i] / total);
  }
}

}  // namespace octavo::device
