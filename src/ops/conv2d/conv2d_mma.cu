// Convolution as a matrix product whose left side is never stored (implicit GEMM): row m is output pixel m, column k is (tap row, tap column, channel).
#include <algorithm>

#include "cuda/float_product.cuh"
#include "cuda/half_unit.cuh"
#include "cuda/row/launch.h"
#include "cuda/row/reduce.cuh"
#include "cuda/row/values.cuh"
#include "device/cuda_check.h"
#include "ops/conv2d/device/conv2d_finish.cuh"

namespace octavo {
namespace {

// What the output pixels that this thread copies for read: eight channels of one tap, zeros outside the map.
struct PixelRows {
  const void* base;
  const Conv2dLaunch& launch;
  int top[cuda::FloatTile::kRowsPerThread], left[cuda::FloatTile::kRowsPerThread];
  std::int64_t k_count;

  __device__ __forceinline__ PixelRows(const Conv2dLaunch& conv, std::int64_t first, std::int64_t columns) : base(conv.x), launch(conv), k_count(columns) {
#pragma unroll
    for (int i = 0; i < cuda::FloatTile::kRowsPerThread; ++i) {
      const std::int64_t pixel = first + cuda::FloatTile::copied_row(i);
      const bool is_there = pixel < std::int64_t(conv.out_height) * conv.out_width;
      // A pixel past the end reads far above the map, where everything is zero.
      top[i] = is_there ? int(pixel / conv.out_width) * conv.stride - conv.pad_top : -(1 << 30);
      left[i] = int(pixel % conv.out_width) * conv.stride - conv.pad_left;
    }
  }
  __device__ __forceinline__ const void* at(int i, std::int64_t k) const {
    if (k >= k_count) return nullptr;
    const int tap = int(k) / launch.channels, channel = int(k) % launch.channels;
    const int y = top[i] + tap / launch.kernel_w, x = left[i] + tap % launch.kernel_w;
    if (y < 0 || x < 0 || y >= launch.height << launch.enlarge_bits || x >= launch.width << launch.enlarge_bits) return nullptr;
    const std::int64_t pixel = std::int64_t(y >> launch.enlarge_bits) * launch.width + (x >> launch.enlarge_bits);
    return static_cast<const std::uint16_t*>(launch.x) + pixel * launch.channels + channel;
  }
};

struct FilterRows {
  const void* base;
  const std::uint16_t* row[cuda::FloatTile::kRowsPerThread];
  std::int64_t k_count;

  __device__ __forceinline__ FilterRows(const Conv2dLaunch& conv, std::int64_t first, std::int64_t columns) : base(conv.w), k_count(columns) {
#pragma unroll
    for (int i = 0; i < cuda::FloatTile::kRowsPerThread; ++i) {
      const std::int64_t channel = first + cuda::FloatTile::copied_row(i);
      row[i] = channel < conv.out_channels ? static_cast<const std::uint16_t*>(conv.w) + channel * columns : nullptr;
    }
  }
  __device__ __forceinline__ const void* at(int i, std::int64_t k) const { return row[i] != nullptr && k < k_count ? row[i] + k : nullptr; }
};

template <cuda::RowType Type, cuda::FloatBody Body>
__global__ void __launch_bounds__(cuda::FloatTile::kThreads) conv2d_mma_kernel(const Conv2dLaunch launch) {
  if constexpr (cuda::float_body_is_built<Body>()) {
    extern __shared__ __align__(128) unsigned char shared[];
    using Tile = cuda::FloatTile;
    const std::int64_t pixels = std::int64_t(launch.out_height) * launch.out_width;
    const std::int64_t columns = std::int64_t(launch.kernel_h) * launch.kernel_w * launch.channels;
    const cuda::TileOrder2d tile(std::int64_t(blockIdx.x), (pixels + Tile::kM - 1) / Tile::kM, (launch.out_channels + Tile::kN - 1) / Tile::kN);
    const std::int64_t first_pixel = tile.m * Tile::kM;
    const int first_channel = int(tile.n) * Tile::kN;
    const PixelRows a(launch, first_pixel, columns);
    const FilterRows b(launch, first_channel, columns);
    cuda::float_product<Type, Body>(shared, a, b, columns, [&](int row, int column, const float4& sum) {
      const std::int64_t pixel = first_pixel + row;
      const int channel = first_channel + column;
      if (pixel >= pixels) return;
      const float c[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (channel + i < launch.out_channels) device::finish_conv2d(launch, pixel, channel + i, c[i]);
      }
    });
  }
}

constexpr int kNarrowThreads = 256;
constexpr std::int64_t kMostNarrowCtas = 4096;

struct NarrowLaunch {
  const void* x = nullptr;
  cuda::RowType type = cuda::RowType::f32;
  std::int64_t count = 0;
  std::uint16_t* to = nullptr;
  float* words = nullptr;  // x_scale; the largest magnitude
};

// Magnitudes compare as the integers of their bits, and a maximum knows no order.
__global__ void __launch_bounds__(kNarrowThreads) largest_kernel(const NarrowLaunch launch) {
  float most = 0;
  for (std::int64_t i = std::int64_t(blockIdx.x) * kNarrowThreads + threadIdx.x; i < launch.count; i += std::int64_t(gridDim.x) * kNarrowThreads)
    most = fmaxf(most, fabsf(cuda::load_one(launch.x, launch.type, i)));
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) most = fmaxf(most, __shfl_xor_sync(cuda::kAllLanes, most, distance));
  if (threadIdx.x % cuda::kWarpLanes == 0) atomicMax(reinterpret_cast<unsigned*>(launch.words + 1), __float_as_uint(most));
}

__global__ void __launch_bounds__(kNarrowThreads) narrow_kernel(const NarrowLaunch launch) {
  const cuda::HalfUnit unit(launch.words[1]);
  if (blockIdx.x == 0 && threadIdx.x == 0) launch.words[0] = unit.scale;
  for (std::int64_t i = std::int64_t(blockIdx.x) * kNarrowThreads + threadIdx.x; i < launch.count; i += std::int64_t(gridDim.x) * kNarrowThreads)
    launch.to[i] = cuda::bits_f16(cuda::load_one(launch.x, launch.type, i) * unit.unit);
}

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

}  // namespace

bool fits_conv2d_mma(const Conv2dLaunch& launch, int sm) {
  const std::int64_t columns = std::int64_t(launch.kernel_h) * launch.kernel_w * launch.channels;
  const bool has_body = sm >= 80 || (sm >= 75 && launch.x_type == cuda::RowType::f16);
  return has_body && launch.x_type == launch.w_type && launch.x_type != cuda::RowType::f32 && launch.channels % 8 == 0 && columns < 1 << 30 &&
         is_aligned(launch.x) && is_aligned(launch.w);
}

void launch_conv2d_narrow(const Conv2dLaunch& launch, void* to, float* words, void* stream) {
  const NarrowLaunch narrow{.x = launch.x,
                            .type = launch.x_type,
                            .count = std::int64_t(launch.height) * launch.width * launch.channels,
                            .to = static_cast<std::uint16_t*>(to),
                            .words = words};
  const std::int64_t ctas = std::clamp<std::int64_t>((narrow.count + kNarrowThreads - 1) / kNarrowThreads, 1, kMostNarrowCtas);
  cuda_check(cudaMemsetAsync(words, 0, 2 * sizeof(float), static_cast<cudaStream_t>(stream)), "conv2d: the largest number");
  cuda_check(cuda::launch_rows(&largest_kernel, ctas, kNarrowThreads, 0, stream, narrow), "conv2d: the largest number");
  cuda_check(cuda::launch_rows(&narrow_kernel, ctas, kNarrowThreads, 0, stream, narrow), "conv2d: x in float16");
}

void launch_conv2d_mma(const Conv2dLaunch& launch, int sm, void* stream) {
  using Tile = cuda::FloatTile;
  using cuda::FloatBody;
  using cuda::RowType;
  const std::int64_t pixels = std::int64_t(launch.out_height) * launch.out_width;
  const std::int64_t ctas = ((pixels + Tile::kM - 1) / Tile::kM) * ((launch.out_channels + Tile::kN - 1) / Tile::kN);
  auto* kernel = &conv2d_mma_kernel<RowType::f16, FloatBody::turing>;
  if (sm >= 80)
    kernel = launch.x_type == RowType::bf16 ? &conv2d_mma_kernel<RowType::bf16, FloatBody::async> : &conv2d_mma_kernel<RowType::f16, FloatBody::async>;
  cuda_check(cuda::launch_rows(kernel, ctas, Tile::kThreads, sm >= 80 ? Tile::kSharedBytes : Tile::kTuringSharedBytes, stream, launch), "conv2d (mma)");
}

}  // namespace octavo
