#include "cuda/row/launch.h"
#include "cuda/row/values.cuh"
#include "device/cuda_check.h"
#include "ops/embed/embed_launch.h"

namespace octavo {
namespace {

constexpr int kThreads = 256;

// A CTA a row.
__global__ void __launch_bounds__(kThreads) embed_kernel(const EmbedLaunch launch) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t from = launch.ids[row] * launch.table.stride, to = row * launch.y.stride;
  for (int k = int(threadIdx.x); k < launch.columns; k += kThreads)
    cuda::store_one(launch.y.data, launch.y.type, to + k, cuda::load_one(launch.table.data, launch.table.type, from + k));
}

}  // namespace

void launch_embed(const EmbedLaunch& launch, void* stream) {
  cuda_check(cuda::launch_rows(&embed_kernel, launch.rows, kThreads, 0, stream, launch), "embed_rows");
}

}  // namespace octavo
