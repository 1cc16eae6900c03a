#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/attention/device/attention_turing.cuh"

namespace octavo {

bool fits_attention_turing(const AttentionLaunch& launch, int sm) {
  const bool is_f16 = launch.q.type == cuda::RowType::f16 && launch.k.type == launch.q.type && launch.v.type == launch.q.type && launch.y.type == launch.q.type;
  const bool has_size = launch.head_dim == 64 || launch.head_dim == 128 || launch.head_dim == 256 || launch.head_dim == 512;
  return sm >= 75 && sm <= 90 && is_f16 && has_size && launch.softmax_scale > 0 && cuda::is_aligned(launch.q) && cuda::is_aligned(launch.k) &&
         cuda::is_aligned(launch.v) && cuda::is_aligned(launch.y);
}

namespace {

template <int HeadDim>
void launch_tile(const AttentionLaunch& launch, void* stream) {
  using Tile = device::TuringTile<HeadDim>;
  auto* kernel = launch.causal ? &device::attention_turing_kernel<HeadDim, true> : &device::attention_turing_kernel<HeadDim, false>;
  int device_index = 0;
  cuda_check(cudaGetDevice(&device_index), "attention: current device");
  cuda_check(cuda::allow_shared(reinterpret_cast<const void*>(kernel), device_index, Tile::kSharedBytes), "attention: shared memory");
  const dim3 grid(unsigned((launch.queries + Tile::kQueries - 1) / Tile::kQueries), unsigned(launch.heads));
  AttentionLaunch arguments = launch;
  void* pointers[] = {&arguments};
  cuda_check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, dim3(unsigned(Tile::kThreads)), pointers, std::size_t(Tile::kSharedBytes),
                              static_cast<cudaStream_t>(stream)),
             "attention (mma, Turing)");
}

}  // namespace

void launch_attention_turing(const AttentionLaunch& launch, void* stream) {
  if (launch.head_dim == 64) return launch_tile<64>(launch, stream);
  if (launch.head_dim == 128) return launch_tile<128>(launch, stream);
  if (launch.head_dim == 256) return launch_tile<256>(launch, stream);
  launch_tile<512>(launch, stream);
}

}  // namespace octavo
