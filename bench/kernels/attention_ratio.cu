#include "bench/kernels/attention_ratio.h"

#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/attention/device/attention_int8_pairs.cuh"
#include "ops/attention/device/attention_pairs.cuh"

namespace octavo::bench {

namespace {

int multiprocessors() {
  int device_index = 0, sms = 0;
  cuda_check(cudaGetDevice(&device_index), "attention_bench: current device");
  cuda_check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device_index), "attention_bench: number of SMs");
  return sms;
}

}  // namespace

void launch_attention_as_on_geforce(const AttentionLaunch& launch, void* stream) {
  using Tile = device::AttentionPairsTile;
  const device::AttentionPairsLaunch p = device::pairs_launch(launch, multiprocessors(), !launch.causal);
  cuda_check(cuda::launch_overlapping(&device::attention_pairs_kernel<cuda::RowType::bf16, false, kGeForceTimes>, dim3(unsigned(p.ctas())), Tile::kThreads,
                                      Tile::kSharedBytes, stream, p),
             "attention_bench: as on a GeForce");
}

void launch_attention_int8_slowed(const AttentionInt8Launch& launch, int times, void* stream) {
  using Tile = device::Int8PairsTile;
  device::AttentionInt8PairsLaunch p = device::pairs_launch(launch, multiprocessors(), true);
  p.attention.softmax_scale /= float(times);  // scores come out so many times as large: weights stay what they are
  auto* kernel = &device::attention_int8_pairs_kernel<1>;
  if (times == 2) kernel = &device::attention_int8_pairs_kernel<2>;
  if (times == 3) kernel = &device::attention_int8_pairs_kernel<3>;
  cuda_check(cuda::launch_overlapping(kernel, dim3(unsigned(p.ctas())), Tile::kThreads, Tile::kSharedBytes, stream, p), "attention_bench: int8, slowed");
}

}  // namespace octavo::bench
