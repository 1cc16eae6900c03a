#include "device/cuda_check.h"
#include "ops/attention/device/attention_plain.cuh"

namespace octavo {
namespace {

template <int kValues>
void launch_values(const AttentionLaunch& launch, void* stream) {
  const dim3 grid(unsigned((launch.queries + device::kPlainQueries - 1) / device::kPlainQueries), unsigned(launch.heads));
  AttentionLaunch arguments = launch;
  void* pointers[] = {&arguments};
  cuda_check(cudaLaunchKernel(reinterpret_cast<const void*>(&device::attention_plain_kernel<kValues>), grid, dim3(unsigned(device::kPlainThreads)), pointers, 0,
                              static_cast<cudaStream_t>(stream)),
             "attention (plain)");
}

}  // namespace

void launch_attention_plain(const AttentionLaunch& launch, void* stream) {
  if (launch.head_dim <= 64) return launch_values<2>(launch, stream);
  if (launch.head_dim <= 256) return launch_values<8>(launch, stream);
  launch_values<kMaxPlainHeadDim / 32>(launch, stream);
}

}  // namespace octavo
