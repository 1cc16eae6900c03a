// Norm per head and rotation of its halves against each other, a warp some heads; every value is read once and written once.
#pragma once

#include <cstdint>

#include "cuda/overlap.cuh"
#include "cuda/row/reduce.cuh"
#include "cuda/row/values.cuh"
#include "ops/rope/rope_launch.h"

namespace octavo::device {

inline constexpr int kRopeWarps = 8;
inline constexpr int kRopeThreads = kRopeWarps * 32;
inline constexpr int kRopeHeads = 6, kRopeBatch = 3;

// Neighbouring values as one word of memory: 1, 2 or 4 of them.
template <cuda::RowType Type, int kCount>
__device__ __forceinline__ void load_run(const void* data, std::int64_t at, float* v) {
  if constexpr (Type == cuda::RowType::f32) {
    const float* from = static_cast<const float*>(data) + at;
    if constexpr (kCount == 4) {
      const float4 four = *reinterpret_cast<const float4*>(from);
      v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) v[i] = from[i];
    }
  } else {
    const std::uint16_t* from = static_cast<const std::uint16_t*>(data) + at;
    std::uint16_t bits[kCount];
    if constexpr (kCount == 4) {
      *reinterpret_cast<uint2*>(bits) = *reinterpret_cast<const uint2*>(from);
    } else if constexpr (kCount == 2) {
      *reinterpret_cast<std::uint32_t*>(bits) = *reinterpret_cast<const std::uint32_t*>(from);
    } else {
      bits[0] = from[0];
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] = Type == cuda::RowType::bf16 ? cuda::float_of_bf16(bits[i]) : cuda::float_of_f16(bits[i]);
  }
}

template <cuda::RowType Type, int kCount>
__device__ __forceinline__ void store_run(void* data, std::int64_t at, const float* v) {
  if constexpr (Type == cuda::RowType::f32) {
    float* to = static_cast<float*>(data) + at;
    if constexpr (kCount == 4) {
      *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) to[i] = v[i];
    }
  } else {
    std::uint16_t* to = static_cast<std::uint16_t*>(data) + at;
    const auto pack = [](float low, float high) { return Type == cuda::RowType::bf16 ? cuda::pack_bf16x2(low, high) : cuda::pack_f16x2(low, high); };
    if constexpr (kCount == 4) {
      *reinterpret_cast<uint2*>(to) = make_uint2(pack(v[0], v[1]), pack(v[2], v[3]));
    } else if constexpr (kCount == 2) {
      *reinterpret_cast<std::uint32_t*>(to) = pack(v[0], v[1]);
    } else {
      to[0] = Type == cuda::RowType::bf16 ? cuda::bits_bf16(v[0]) : cuda::bits_f16(v[0]);
    }
  }
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(cuda::kAllLanes, value, distance);
  return value;
}

// head_dim = 64 · kRun: a lane holds kRun neighbours of the lower half and their partners in the upper. A warp takes kRopeHeads heads of a row, whose
// angles and weights it reads once (they are four times a head's bytes), kRopeBatch heads in flight at a time.
template <cuda::RowType Type, int kRun>
__global__ void __launch_bounds__(kRopeThreads) head_norm_rope_kernel(const HeadNormRopeLaunch launch) {
  constexpr int kHalf = 32 * kRun;
  const int lane = int(threadIdx.x) % 32, first = lane * kRun;
  const int pieces = (launch.heads + kRopeHeads - 1) / kRopeHeads;
  cuda::wait_for_predecessor();
  cuda::let_successor_begin();
  const std::int64_t index = std::int64_t(blockIdx.x) * kRopeWarps + threadIdx.x / 32;
  if (index >= launch.rows * pieces) return;
  const std::int64_t row = index / pieces;
  const int first_head = int(index % pieces) * kRopeHeads;
  const int end_head = first_head + kRopeHeads < launch.heads ? first_head + kRopeHeads : launch.heads;
  float c[kRun], s[kRun], weight_low[kRun], weight_high[kRun];
  load_run<cuda::RowType::f32, kRun>(launch.cos, row * launch.table_stride + first, c);
  load_run<cuda::RowType::f32, kRun>(launch.sin, row * launch.table_stride + first, s);
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    weight_low[i] = cuda::load_one(launch.weight, launch.weight_type, first + i);
    weight_high[i] = cuda::load_one(launch.weight, launch.weight_type, kHalf + first + i);
  }
  for (int head = first_head; head < end_head; head += kRopeBatch) {
    const std::int64_t at = row * launch.x.stride + std::int64_t(head) * (2 * kHalf) + first;
    float low[kRopeBatch][kRun], high[kRopeBatch][kRun];
#pragma unroll
    for (int b = 0; b < kRopeBatch; ++b) {
      if (head + b >= end_head) break;
      load_run<Type, kRun>(launch.x.data, at + b * 2 * kHalf, low[b]);
      load_run<Type, kRun>(launch.x.data, at + b * 2 * kHalf + kHalf, high[b]);
    }
#pragma unroll
    for (int b = 0; b < kRopeBatch; ++b) {
      if (head + b >= end_head) break;
      float squares = 0;
#pragma unroll
      for (int i = 0; i < kRun; ++i) squares += low[b][i] * low[b][i] + high[b][i] * high[b][i];
      const float inverse = 1.0f / __fsqrt_rn(warp_sum(squares) / float(2 * kHalf) + launch.eps);
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        const float l = (low[b][i] * inverse) * weight_low[i], h = (high[b][i] * inverse) * weight_high[i];
        low[b][i] = l * c[i] - h * s[i];
        high[b][i] = h * c[i] + l * s[i];
      }
      store_run<Type, kRun>(launch.x.data, at + b * 2 * kHalf, low[b]);
      store_run<Type, kRun>(launch.x.data, at + b * 2 * kHalf + kHalf, high[b]);
    }
  }
}

// Any head_dim and alignment: values are read twice.
__global__ void __launch_bounds__(kRopeThreads) head_norm_rope_general_kernel(const HeadNormRopeLaunch launch) {
  const int lane = int(threadIdx.x) % 32, half = launch.head_dim / 2;
  const std::int64_t index = std::int64_t(blockIdx.x) * kRopeWarps + threadIdx.x / 32;
  if (index >= launch.rows * launch.heads) return;
  const std::int64_t row = index / launch.heads;
  const std::int64_t at = row * launch.x.stride + index % launch.heads * launch.head_dim;
  float squares = 0;
  for (int i = lane; i < launch.head_dim; i += 32) {
    const float v = cuda::load_one(launch.x.data, launch.x.type, at + i);
    squares += v * v;
  }
  const float inverse = 1.0f / __fsqrt_rn(warp_sum(squares) / float(launch.head_dim) + launch.eps);
  // A lane reads and writes the same pairs, so nobody else's values are touched.
  for (int i = lane; i < half; i += 32) {
    const float low = (cuda::load_one(launch.x.data, launch.x.type, at + i) * inverse) * cuda::load_one(launch.weight, launch.weight_type, i);
    const float high = (cuda::load_one(launch.x.data, launch.x.type, at + half + i) * inverse) * cuda::load_one(launch.weight, launch.weight_type, half + i);
    const float c = launch.cos[row * launch.table_stride + i], s = launch.sin[row * launch.table_stride + i];
    cuda::store_one(launch.x.data, launch.x.type, at + i, low * c - high * s);
    cuda::store_one(launch.x.data, launch.x.type, at + half + i, high * c + low * s);
  }
}

}  // namespace octavo::device
