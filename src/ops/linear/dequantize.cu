#include <cuda_bf16.h>

#include <algorithm>

#include "device/cuda_check.h"
#include "ops/linear/dequantize.h"

namespace octavo {
namespace {

// Eight columns a thread: two 16-byte loads, one 16-byte store. n a multiple of 8, else one column a thread.
__global__ void __launch_bounds__(256)
    dequantize_kernel(const int4* acc, const float* x_scale, const float4* w_scale, uint4* y, std::int64_t rows, std::int64_t chunks) {
  const std::int64_t count = rows * chunks;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += std::int64_t(gridDim.x) * blockDim.x) {
    const float scale = x_scale[i / chunks];
    const std::int64_t chunk = i % chunks;
    std::uint32_t packed[4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int4 a = acc[2 * i + half];
      const float4 w = w_scale[2 * chunk + half];
      const __nv_bfloat162 low = __floats2bfloat162_rn(__fmul_rn(__fmul_rn(float(a.x), scale), w.x), __fmul_rn(__fmul_rn(float(a.y), scale), w.y));
      const __nv_bfloat162 high = __floats2bfloat162_rn(__fmul_rn(__fmul_rn(float(a.z), scale), w.z), __fmul_rn(__fmul_rn(float(a.w), scale), w.w));
      packed[2 * half] = reinterpret_cast<const std::uint32_t&>(low);
      packed[2 * half + 1] = reinterpret_cast<const std::uint32_t&>(high);
    }
    y[i] = make_uint4(packed[0], packed[1], packed[2], packed[3]);
  }
}

__global__ void __launch_bounds__(256)
    dequantize_any_kernel(const std::int32_t* acc, const float* x_scale, const float* w_scale, __nv_bfloat16* y, std::int64_t rows, std::int64_t n) {
  const std::int64_t count = rows * n;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += std::int64_t(gridDim.x) * blockDim.x) {
    y[i] = __float2bfloat16_rn(__fmul_rn(__fmul_rn(float(acc[i]), x_scale[i / n]), w_scale[i % n]));
  }
}

}  // namespace

void launch_dequantize(const std::int32_t* acc, const float* x_scale, const float* w_scale, void* y_bf16, std::int64_t m, std::int64_t n, void* stream) {
  if (m == 0 || n == 0) return;
  constexpr int kThreads = 256;
  constexpr std::int64_t kMaxCtas = 1 << 20;
  const bool is_wide = n % 8 == 0;
  const std::int64_t count = is_wide ? m * (n / 8) : m * n;
  const auto ctas = unsigned(std::min(kMaxCtas, (count + kThreads - 1) / kThreads));
  auto* where = static_cast<cudaStream_t>(stream);
  if (is_wide) {
    dequantize_kernel<<<ctas, kThreads, 0, where>>>(reinterpret_cast<const int4*>(acc), x_scale, reinterpret_cast<const float4*>(w_scale),
                                                    static_cast<uint4*>(y_bf16), m, n / 8);
  } else {
    dequantize_any_kernel<<<ctas, kThreads, 0, where>>>(acc, x_scale, w_scale, static_cast<__nv_bfloat16*>(y_bf16), m, n);
  }
  cuda_check(cudaGetLastError(), "dequantize");
}

}  // namespace octavo
