// y = x Wᵀ of any float types: 64×64 outputs a CTA, 4×4 a thread, 16 columns at a time through shared memory; each sum runs over k in order.
#include "cuda/float_product.cuh"
#include "cuda/row/launch.h"
#include "device/cuda_check.h"
#include "ops/linear/device/finish_float.cuh"

namespace octavo {
namespace {

constexpr int kTile = 64, kDepth = 16, kThreads = 256, kPerThread = 4;

__global__ void __launch_bounds__(kThreads) linear_float_plain_kernel(const FloatLinearLaunch launch) {
  __shared__ float x_tile[kDepth][kTile + 4], w_tile[kDepth][kTile + 4];
  const cuda::TileOrder2d tile(std::int64_t(blockIdx.x), (launch.m + kTile - 1) / kTile, (launch.n + kTile - 1) / kTile);
  const std::int64_t first_m = tile.m * kTile, first_n = tile.n * kTile;
  const int thread = int(threadIdx.x), row = thread / 16 * kPerThread, column = thread % 16 * kPerThread;
  float acc[kPerThread][kPerThread] = {};
  for (std::int64_t first_k = 0; first_k < launch.k; first_k += kDepth) {
    for (int i = thread; i < kTile * kDepth; i += kThreads) {
      const int depth = i % kDepth, line = i / kDepth;
      const std::int64_t k = first_k + depth, m = first_m + line, n = first_n + line;
      x_tile[depth][line] = k < launch.k && m < launch.m ? cuda::load_one(launch.x.data, launch.x.type, m * launch.x.stride + k) : 0.0f;
      w_tile[depth][line] = k < launch.k && n < launch.n ? cuda::load_one(launch.w.data, launch.w.type, n * launch.w.stride + k) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
      const float4 x4 = *reinterpret_cast<const float4*>(&x_tile[depth][row]), w4 = *reinterpret_cast<const float4*>(&w_tile[depth][column]);
      const float xs[kPerThread] = {x4.x, x4.y, x4.z, x4.w}, ws[kPerThread] = {w4.x, w4.y, w4.z, w4.w};
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) acc[i][j] = __fmaf_rn(xs[i], ws[j], acc[i][j]);
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kPerThread; ++i) {
    for (int j = 0; j < kPerThread; ++j) {
      const std::int64_t m = first_m + row + i, n = first_n + column + j;
      if (m < launch.m && n < launch.n) {
        cuda::store_one(launch.y.data, launch.y.type, m * launch.y.stride + n, device::finish_float(launch, m, n, acc[i][j]));
      }
    }
  }
}

}  // namespace

void launch_float_plain(const FloatLinearLaunch& launch, void* stream) {
  const std::int64_t ctas = ((launch.m + kTile - 1) / kTile) * ((launch.n + kTile - 1) / kTile);
  cuda_check(cuda::launch_rows(&linear_float_plain_kernel, ctas, kThreads, 0, stream, launch), "linear (float, plain)");
}

}  // namespace octavo
