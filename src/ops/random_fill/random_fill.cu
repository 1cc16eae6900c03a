#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "device/cuda_check.h"
#include "ops/random_fill/random_fill_backend.h"
#include "ops/random_fill/random_value.h"

namespace octavo {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 4096;  // threads walk on: a matrix of 2^31 numbers needs no larger grid

__device__ void store(float value, float* to) { *to = value; }
__device__ void store(float value, __nv_bfloat16* to) { *to = __float2bfloat16_rn(value); }
__device__ void store(float value, __half* to) { *to = __float2half_rn(value); }
__device__ void store(float value, signed char* to) { *to = static_cast<signed char>(__float2int_rn(value)); }

template <class Element>
__global__ void __launch_bounds__(kThreads) random_fill_kernel(Element* out, float factor, std::uint64_t seed, std::int64_t count) {
  const std::int64_t step = std::int64_t(gridDim.x) * kThreads;
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    store(__fmul_rn(static_cast<float>(random_sum(seed, static_cast<std::uint64_t>(i))), factor), out + i);
  }
}

template <class Element>
void launch(const TensorView& out, float factor, std::uint64_t seed, void* stream) {
  const std::int64_t count = out.shape.elements();
  const std::int64_t blocks = (count + kThreads - 1) / kThreads;
  random_fill_kernel<<<unsigned(blocks < kBlocks ? blocks : kBlocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(out.as<Element>(), factor, seed, count);
  cuda_check(cudaGetLastError(), "random_fill");
}

}  // namespace

void random_fill_cuda(const TensorView& out, float factor, std::uint64_t seed, void* stream) {
  if (out.shape.elements() == 0) return;
  cuda_check(cudaSetDevice(out.device.index), "random_fill: select device");
  switch (out.dtype) {
    case DType::bf16:
      return launch<__nv_bfloat16>(out, factor, seed, stream);
    case DType::f16:
      return launch<__half>(out, factor, seed, stream);
    case DType::s8:
      return launch<signed char>(out, factor, seed, stream);
    default:
      return launch<float>(out, factor, seed, stream);
  }
}

}  // namespace octavo
