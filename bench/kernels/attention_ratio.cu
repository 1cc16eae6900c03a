#include "bench/kernels/attention_ratio.h"

#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/attention/device/attention_int8.cuh"
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

void launch_attention_int8_slowed(const AttentionInt8Launch& launch, int times, void* stream) {
  using Tile = device::Int8AttentionTile<256>;
  AttentionInt8Launch slowed = launch;
  slowed.softmax_scale /= float(times);  // scores come out so many times as large: weights stay what they are
  auto* kernel = &device::attention_int8_kernel<256, 1>;
  if (times == 2) kernel = &device::attention_int8_kernel<256, 2>;
  if (times == 3) kernel = &device::attention_int8_kernel<256, 3>;
  const dim3 grid(unsigned((launch.queries + Tile::kQueries - 1) / Tile::kQueries), unsigned(launch.heads));
  int device_index = 0;
  cuda_check(cudaGetDevice(&device_index), "attention_bench: current device");
  cuda_check(cuda::allow_shared(reinterpret_cast<const void*>(kernel), device_index, Tile::kSharedBytes), "attention_bench: shared memory");
  kernel<<<grid, Tile::kThreads, Tile::kSharedBytes, static_cast<cudaStream_t>(stream)>>>(slowed);
  cuda_check(cudaGetLastError(), "attention_bench: int8, slowed");
}

}  // namespace octavo::bench
