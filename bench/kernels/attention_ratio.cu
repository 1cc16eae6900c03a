#include "bench/kernels/attention_ratio.h"

#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/attention/device/attention_pairs.cuh"

namespace octavo::bench {

void launch_attention_as_on_geforce(const AttentionLaunch& launch, void* stream) {
  using Tile = device::AttentionPairsTile;
  int device_index = 0, sms = 0;
  cuda_check(cudaGetDevice(&device_index), "attention_bench: current device");
  cuda_check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device_index), "attention_bench: number of SMs");
  const device::AttentionPairsLaunch p = device::pairs_launch(launch, sms);
  cuda_check(cuda::launch_overlapping(&device::attention_pairs_kernel<cuda::RowType::bf16, false, kGeForceTimes>, dim3(unsigned(p.ctas())), Tile::kThreads,
                                      Tile::kSharedBytes, stream, p),
             "attention_bench: as on a GeForce");
}

}  // namespace octavo::bench
