// y[m,k] = float(q[m,k]) · scale[m]. Memory alone: a thread reads 16 codes and writes 16 floats, or one of each where rows are not whole 16-byte words.
#include <algorithm>

#include "cuda/row/launch.h"
#include "cuda/row/values.cuh"
#include "device/cuda_check.h"
#include "ops/quantize/quantize_launch.h"

namespace octavo {
namespace {

constexpr int kThreads = 256, kCodes = 16;

template <cuda::RowType Type>
__global__ void __launch_bounds__(kThreads) dequantize_rows_kernel(const DequantizeLaunch launch) {
  const std::int64_t chunks = launch.columns / kCodes, count = launch.rows * chunks;
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += std::int64_t(gridDim.x) * kThreads) {
    const std::int64_t m = i / chunks, k = i % chunks * kCodes;
    const uint4 four = *reinterpret_cast<const uint4*>(launch.q + m * launch.q_stride + k);
    const std::uint32_t words[4] = {four.x, four.y, four.z, four.w};
    const float scale = launch.scale[m];
    float v[kCodes];
#pragma unroll
    for (int j = 0; j < kCodes; ++j) v[j] = __fmul_rn(float(static_cast<std::int8_t>(words[j / 4] >> (8 * (j % 4)))), scale);
    auto* to = static_cast<char*>(cuda::at(launch.y, m, k));
    cuda::store_raw8<Type>(to, cuda::pack8<Type>(v));
    cuda::store_raw8<Type>(to + 8 * cuda::bytes_of(Type), cuda::pack8<Type>(v + 8));
  }
}

__global__ void __launch_bounds__(kThreads) dequantize_rows_general_kernel(const DequantizeLaunch launch) {
  const std::int64_t count = launch.rows * launch.columns;
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += std::int64_t(gridDim.x) * kThreads) {
    const std::int64_t m = i / launch.columns, k = i % launch.columns;
    cuda::store_one(launch.y.data, launch.y.type, m * launch.y.stride + k, __fmul_rn(float(launch.q[m * launch.q_stride + k]), launch.scale[m]));
  }
}

}  // namespace

void launch_dequantize_rows(const DequantizeLaunch& launch, void* stream) {
  const bool is_whole = launch.columns % kCodes == 0 && cuda::is_aligned(launch.y) && cuda::is_aligned_16(launch.q, launch.q_stride);
  constexpr std::int64_t kMostCtas = 1 << 20;  // threads walk on
  const std::int64_t threads = launch.rows * launch.columns / (is_whole ? kCodes : 1);
  const std::int64_t ctas = std::min(kMostCtas, (threads + kThreads - 1) / kThreads);
  cuda::with_type(launch.y.type, [&](auto type) {
    auto* kernel = is_whole ? &dequantize_rows_kernel<type()> : &dequantize_rows_general_kernel;
    cuda_check(cuda::launch_rows(kernel, ctas, kThreads, 0, stream, launch), "dequantize_rows");
  });
}

}  // namespace octavo
