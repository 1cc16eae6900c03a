#include <cuda_runtime.h>

#include "device/cuda_check.h"
#include "ops/guided_step/guided_step_backend.h"

namespace octavo {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    guided_step_kernel(float* z, const float* v_cond, const float* v_uncond, float guidance, float step_length, std::int64_t count) {
  const std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  float v = v_cond[i];
  if (v_uncond != nullptr) v = __fadd_rn(__fmul_rn(guidance, v), __fmul_rn(__fsub_rn(1.0f, guidance), v_uncond[i]));
  z[i] = __fadd_rn(z[i], __fmul_rn(step_length, v));
}

}  // namespace

void guided_step_cuda(float* z, const float* v_cond, const float* v_uncond, float guidance, float step_length, std::int64_t count, Device device,
                      void* stream) {
  if (count == 0) return;
  cuda_check(cudaSetDevice(device.index), "guided_step: select device");
  guided_step_kernel<<<unsigned((count + kThreads - 1) / kThreads), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(z, v_cond, v_uncond, guidance,
                                                                                                                      step_length, count);
  cuda_check(cudaGetLastError(), "guided_step");
}

}  // namespace octavo
