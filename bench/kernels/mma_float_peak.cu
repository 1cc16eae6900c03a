// What a tensor-core product gives from registers alone: the ceiling of every kernel built on it.
#include "bench/kernels/mma_float_peak.h"

#include <cuda_runtime.h>

#include "cuda/mma_float.cuh"
#include "cuda/mma_s8.cuh"
#include "device/cuda_check.h"

namespace octavo::bench {
namespace {

constexpr int kWarps = 8, kChains = 16, kSteps = 4096;

// Sums of one product, and their total in a float: the compiler must not drop any.
template <MmaKind Kind>
struct Sums {
  float f[4] = {};
  int i[4] = {};
  unsigned h[2] = {};

  __device__ void multiply(const unsigned (&a)[4], const unsigned (&b)[2]) {
    if constexpr (Kind == MmaKind::bf16) cuda::mma_m16n8k16<cuda::RowType::bf16>(f, a, b[0], b[1]);
    if constexpr (Kind == MmaKind::s8) cuda::mma_m16n8k32_s8(i, a, b[0], b[1]);
    if constexpr (Kind == MmaKind::f16_sums) cuda::mma_m16n8k16_f16_sums(h, a, b[0], b[1]);
  }
  __device__ float total() const { return f[0] + f[1] + f[2] + f[3] + float(i[0] + i[1] + i[2] + i[3]) + float(h[0] ^ h[1]); }
};

template <MmaKind Kind>
__global__ void __launch_bounds__(kWarps * 32) peak_kernel(float* out) {
#if __CUDA_ARCH__ >= 800
  const unsigned lane = threadIdx.x;
  // Random-looking operands of small numbers: zeros would draw less power and clock higher.
  unsigned a[4], b[2];
  for (int i = 0; i < 4; ++i) a[i] = 0x3f003e80u ^ ((lane * 2654435761u + unsigned(i) * 40503u) & 0x807f807fu);
  for (int i = 0; i < 2; ++i) b[i] = 0x3e803f00u ^ ((lane * 2246822519u + unsigned(i) * 30011u) & 0x807f807fu);
  Sums<Kind> sums[kChains];
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int c = 0; c < kChains; ++c) sums[c].multiply(a, b);
  }
  float sum = 0;
  for (int c = 0; c < kChains; ++c) sum += sums[c].total();
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
#endif
}

}  // namespace

double mma_peak_tflops(MmaKind kind, int rounds) {
  int device = 0, sms = 0;
  cuda_check(cudaGetDevice(&device), "peak: device");
  cuda_check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "peak: SMs");
  float* out = nullptr;
  cuda_check(cudaMalloc(&out, std::size_t(sms) * kWarps * 32 * sizeof(float)), "peak: memory");
  cudaEvent_t begin{}, end{};
  cuda_check(cudaEventCreate(&begin), "peak: event");
  cuda_check(cudaEventCreate(&end), "peak: event");
  auto* kernel = &peak_kernel<MmaKind::bf16>;
  if (kind == MmaKind::s8) kernel = &peak_kernel<MmaKind::s8>;
  if (kind == MmaKind::f16_sums) kernel = &peak_kernel<MmaKind::f16_sums>;
  double best = 0;
  for (int i = 0; i < rounds + 2; ++i) {
    cuda_check(cudaEventRecord(begin), "peak: record");
    kernel<<<sms, kWarps * 32>>>(out);
    cuda_check(cudaEventRecord(end), "peak: record");
    cuda_check(cudaEventSynchronize(end), "peak: wait");
    float ms = 0;
    cuda_check(cudaEventElapsedTime(&ms, begin, end), "peak: elapsed");
    const double flop = 2.0 * 16 * 8 * (kind == MmaKind::s8 ? 32 : 16) * kChains * kSteps * kWarps * sms;
    if (i >= 2 && flop / ms / 1e9 > best) best = flop / ms / 1e9;
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaFree(out);
  return best;
}

}  // namespace octavo::bench
