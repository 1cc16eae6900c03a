#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/attention/device/attention_mma.cuh"
#include "ops/attention/device/attention_pairs.cuh"

namespace octavo {

bool fits_attention_mma(const AttentionLaunch& launch, int sm) {
  const bool one_type = launch.q.type == launch.k.type && launch.q.type == launch.v.type && launch.q.type == launch.y.type;
  const bool has_size = launch.head_dim == 64 || launch.head_dim == 128 || launch.head_dim == 256 || launch.head_dim == 512;
  // A positive scale: the largest product is then the largest score.
  return sm >= 80 && one_type && launch.q.type != cuda::RowType::f32 && has_size && launch.softmax_scale > 0 && cuda::is_aligned(launch.q) &&
         cuda::is_aligned(launch.k) && cuda::is_aligned(launch.v) && cuda::is_aligned(launch.y);
}

namespace {

template <cuda::RowType Type, int HeadDim>
void launch_tile(const AttentionLaunch& launch, void* stream) {
  using Tile = device::AttentionTile<HeadDim>;
  void (*kernel)(AttentionLaunch) = &device::attention_mma_kernel<Type, HeadDim, false>;
  if (launch.causal) kernel = &device::attention_mma_kernel<Type, HeadDim, true>;
  int device_index = 0;
  cuda_check(cudaGetDevice(&device_index), "attention: current device");
  cuda_check(cuda::allow_shared(reinterpret_cast<const void*>(kernel), device_index, Tile::kSharedBytes), "attention: shared memory");
  const dim3 grid(unsigned((launch.queries + Tile::kQueries - 1) / Tile::kQueries), unsigned(launch.heads));
  AttentionLaunch arguments = launch;
  void* pointers[] = {&arguments};
  cuda_check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, dim3(unsigned(Tile::kThreads)), pointers, std::size_t(Tile::kSharedBytes),
                              static_cast<cudaStream_t>(stream)),
             "attention (mma)");
}

// head_dim 256
template <cuda::RowType Type>
void launch_pairs(const AttentionLaunch& launch, void* stream) {
  using Tile = device::AttentionPairsTile;
  int device_index = 0, sms = 0;
  cuda_check(cudaGetDevice(&device_index), "attention: current device");
  cuda_check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device_index), "attention: number of SMs");
  const device::AttentionPairsLaunch p = device::pairs_launch(launch, sms);
  auto* kernel = launch.causal ? &device::attention_pairs_kernel<Type, true> : &device::attention_pairs_kernel<Type, false>;
  cuda_check(cuda::launch_overlapping(kernel, dim3(unsigned(p.ctas())), Tile::kThreads, Tile::kSharedBytes, stream, p), "attention (mma, pairs)");
}

template <cuda::RowType Type>
void launch_type(const AttentionLaunch& launch, void* stream) {
  if (launch.head_dim == 64) return launch_tile<Type, 64>(launch, stream);
  if (launch.head_dim == 128) return launch_tile<Type, 128>(launch, stream);
  if (launch.head_dim == 256) return launch_pairs<Type>(launch, stream);
  launch_tile<Type, 512>(launch, stream);
}

}  // namespace

void launch_attention_mma(const AttentionLaunch& launch, void* stream) {
  if (launch.q.type == cuda::RowType::bf16) return launch_type<cuda::RowType::bf16>(launch, stream);
  launch_type<cuda::RowType::f16>(launch, stream);
}

}  // namespace octavo
