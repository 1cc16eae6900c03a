// What m16n8k16 in bf16 with float32 sums gives from registers alone: the ceiling of every kernel built on it.
#include "bench/kernels/mma_float_peak.h"

#include <cuda_runtime.h>

#include "cuda/mma_float.cuh"
#include "device/cuda_check.h"

namespace octavo::bench {
namespace {

constexpr int kWarps = 8, kChains = 16, kSteps = 4096;

__global__ void __launch_bounds__(kWarps * 32) peak_kernel(float* out) {
#if __CUDA_ARCH__ >= 800
  const unsigned lane = threadIdx.x;
  // Random-looking operands of small numbers: zeros would draw less power and clock higher.
  unsigned a[4], b[2];
  for (int i = 0; i < 4; ++i) a[i] = 0x3f003e80u ^ ((lane * 2654435761u + unsigned(i) * 40503u) & 0x807f807fu);
  for (int i = 0; i < 2; ++i) b[i] = 0x3e803f00u ^ ((lane * 2246822519u + unsigned(i) * 30011u) & 0x807f807fu);
  float acc[kChains][4] = {};
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int c = 0; c < kChains; ++c) cuda::mma_m16n8k16<cuda::RowType::bf16>(acc[c], a, b[0], b[1]);
  }
  float sum = 0;
  for (int c = 0; c < kChains; ++c) sum += acc[c][0] + acc[c][1] + acc[c][2] + acc[c][3];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
#endif
}

}  // namespace

double mma_float_peak_tflops(int rounds) {
  int device = 0, sms = 0;
  cuda_check(cudaGetDevice(&device), "peak: device");
  cuda_check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "peak: SMs");
  float* out = nullptr;
  cuda_check(cudaMalloc(&out, std::size_t(sms) * kWarps * 32 * sizeof(float)), "peak: memory");
  cudaEvent_t begin{}, end{};
  cuda_check(cudaEventCreate(&begin), "peak: event");
  cuda_check(cudaEventCreate(&end), "peak: event");
  double best = 0;
  for (int i = 0; i < rounds + 2; ++i) {
    cuda_check(cudaEventRecord(begin), "peak: record");
    peak_kernel<<<sms, kWarps * 32>>>(out);
    cuda_check(cudaEventRecord(end), "peak: record");
    cuda_check(cudaEventSynchronize(end), "peak: wait");
    float ms = 0;
    cuda_check(cudaEventElapsedTime(&ms, begin, end), "peak: elapsed");
    const double flop = 2.0 * 16 * 8 * 16 * kChains * kSteps * kWarps * sms;
    if (i >= 2 && flop / ms / 1e9 > best) best = flop / ms / 1e9;
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaFree(out);
  return best;
}

}  // namespace octavo::bench
