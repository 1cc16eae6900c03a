// From q, k and v to what the int8 attention reads: three kernels, in this order.
//   run_sums     per run of 64 keys and column: the sum of k, and per 64 columns the largest |v|          reads k, v
//   finish_runs  per key/value head: the mean of its columns and its unit, from the runs in order         reads 1/64 of that
//   codes        q to codes, k less its mean to codes, v to float16 times unit, eight numbers a lane      reads q, k, v and writes half of it
#pragma once

#include <cstdint>

#include "cuda/row/quantize.cuh"
#include "cuda/row/reduce.cuh"
#include "cuda/row/values.cuh"
#include "ops/attention/attention_int8_launch.h"

namespace octavo::device {

inline constexpr int kCodesThreads = 256;
inline constexpr int kLargestColumns = 64;  // columns of one maximum: 32 lanes, two each

template <int kLanes>
__device__ __forceinline__ std::uint32_t max_over_lanes(std::uint32_t value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    const std::uint32_t other = __shfl_xor_sync(cuda::kAllLanes, value, distance);
    value = value > other ? value : other;
  }
  return value;
}

// Two neighbours.
template <cuda::RowType Type>
__device__ __forceinline__ void load_two(const cuda::RowsIn& rows, std::int64_t row, int column, float (&v)[2]) {
  const std::int64_t at = row * rows.stride + column;
  if constexpr (Type == cuda::RowType::f32) {
    const float2 two = *reinterpret_cast<const float2*>(static_cast<const float*>(rows.data) + at);
    v[0] = two.x, v[1] = two.y;
  } else {
    const std::uint32_t two = *reinterpret_cast<const std::uint32_t*>(static_cast<const std::uint16_t*>(rows.data) + at);
    const auto one = [](std::uint32_t bits) {
      return Type == cuda::RowType::bf16 ? cuda::float_of_bf16(std::uint16_t(bits)) : cuda::float_of_f16(std::uint16_t(bits));
    };
    v[0] = one(two & 0xffffu), v[1] = one(two >> 16);
  }
}

// Grid: runs of keys × pieces of 512 columns.
template <cuda::RowType Type>
__global__ void __launch_bounds__(kCodesThreads) run_sums_kernel(const AttentionCodesLaunch launch) {
  const int columns = launch.kv_heads * launch.head_dim;
  const int column = (int(blockIdx.y) * kCodesThreads + int(threadIdx.x)) * 2;
  if (column >= columns) return;  // whole warps: columns is a multiple of 64
  const std::int64_t first = std::int64_t(blockIdx.x) * kMeanRun;
  const int count = int(launch.keys - first < kMeanRun ? launch.keys - first : kMeanRun);
  float sum[2] = {0, 0};
  std::uint32_t largest = 0;
#pragma unroll 8
  for (int j = 0; j < count; ++j) {
    float k[2], v[2];
    load_two<Type>(launch.k, first + j, column, k);
    load_two<Type>(launch.v, first + j, column, v);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      sum[i] = __fadd_rn(sum[i], k[i]);
      const std::uint32_t bits = __float_as_uint(v[i]) & 0x7fffffffu;
      largest = largest > bits ? largest : bits;
    }
  }
  *reinterpret_cast<float2*>(launch.run_sums + std::int64_t(blockIdx.x) * columns + column) = make_float2(sum[0], sum[1]);
  largest = max_over_lanes<32>(largest);
  if (threadIdx.x % 32 == 0) launch.run_largest[std::int64_t(blockIdx.x) * (columns / kLargestColumns) + column / kLargestColumns] = largest;
}

// Grid: key/value heads; a thread a column.
__global__ void finish_runs_kernel(const AttentionCodesLaunch launch) {
  __shared__ std::uint32_t shared_largest;
  const int columns = launch.kv_heads * launch.head_dim, column = int(blockIdx.x) * launch.head_dim + int(threadIdx.x);
  const int runs = int((launch.keys + kMeanRun - 1) / kMeanRun);
  if (threadIdx.x == 0) shared_largest = 0;
  float total = 0;
#pragma unroll 8
  for (int run = 0; run < runs; ++run) total = __fadd_rn(total, launch.run_sums[std::int64_t(run) * columns + column]);
  launch.mean[column] = __fdiv_rn(total, float(launch.keys));
  const int pieces = launch.head_dim / kLargestColumns;
  std::uint32_t largest = 0;
  for (int i = int(threadIdx.x); i < runs * pieces; i += int(blockDim.x)) {
    const std::uint32_t bits = launch.run_largest[std::int64_t(i / pieces) * (columns / kLargestColumns) + int(blockIdx.x) * pieces + i % pieces];
    largest = largest > bits ? largest : bits;
  }
  __syncthreads();
  atomicMax(&shared_largest, largest);
  __syncthreads();
  if (threadIdx.x == 0) launch.v_unit[blockIdx.x] = __uint_as_float(value_unit_bits(shared_largest));
}

// Grid: rows of heads, HeadDim / 8 lanes each × {q, k, v}.
template <cuda::RowType Type, int HeadDim>
__global__ void __launch_bounds__(kCodesThreads) codes_kernel(const AttentionCodesLaunch launch) {
  constexpr int kLanes = HeadDim / 8;
  const bool is_q = blockIdx.y == 0, is_v = blockIdx.y == 2;
  const int heads = is_q ? launch.heads : launch.kv_heads;
  const std::int64_t rows = is_q ? launch.queries : launch.keys;
  const cuda::RowsIn from = is_q ? launch.q : is_v ? launch.v : launch.k;
  const std::int64_t index = (std::int64_t(blockIdx.x) * kCodesThreads + threadIdx.x) / kLanes;
  const bool is_there = index < rows * heads;  // lanes beyond take part in the shuffles
  const std::int64_t row = is_there ? index / heads : 0;
  const int head = is_there ? int(index % heads) : 0;
  const int lane = int(threadIdx.x) % kLanes, column = head * HeadDim + lane * 8;
  float v[8];
  cuda::unpack8<Type>(cuda::load_raw8<Type>(static_cast<const char*>(from.data) + (row * from.stride + column) * cuda::bytes_of(Type)), v);
  const std::int64_t to = row * (std::int64_t(heads) * HeadDim) + column;
  if (is_v) {
    const float unit = launch.v_unit[head];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = __fmul_rn(v[i], unit);
    if (is_there) cuda::store_raw8<cuda::RowType::f16>(launch.values + to, cuda::pack8<cuda::RowType::f16>(v));
    return;
  }
  if (!is_q) {
    const float4 low = *reinterpret_cast<const float4*>(launch.mean + column), high = *reinterpret_cast<const float4*>(launch.mean + column + 4);
    const float mean[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = __fsub_rn(v[i], mean[i]);
  }
  cuda::AbsMax absmax;
#pragma unroll
  for (int i = 0; i < 8; ++i) absmax.add(v[i]);
  const float largest = __uint_as_float(max_over_lanes<kLanes>(absmax.bits()));
  const float inverse = cuda::inverse_scale(largest);
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = inverse == 0.0f ? 0.0f : v[i];  // a NaN times 0 would not be code 0
  if (!is_there) return;
  *reinterpret_cast<uint2*>((is_q ? launch.q_codes : launch.k_codes) + to) =
      make_uint2(cuda::pack_codes<cuda::Rounding::twice>(v, inverse), cuda::pack_codes<cuda::Rounding::twice>(v + 4, inverse));
  if (lane == 0) (is_q ? launch.q_scale : launch.k_scale)[head * rows + row] = cuda::scale_of(largest, inverse);
}

}  // namespace octavo::device
