// y = x Wᵀ of 16-bit floats on the tensor cores. One kernel for all M and N, so that a row's bits do not depend on how many there are.
#include "cuda/float_product.cuh"
#include "cuda/half_unit.cuh"
#include "cuda/row/launch.h"
#include "cuda/row/reduce.cuh"
#include "cuda/row/values.cuh"
#include "device/cuda_check.h"
#include "ops/linear/device/finish_float.cuh"

namespace octavo {
namespace {

// The rows of a matrix that this thread copies; rows past the end are zeros.
struct MatrixRows {
  const void* base;
  const char* row[cuda::FloatTile::kRowsPerThread];
  std::int64_t k_count;

  __device__ __forceinline__ MatrixRows(const cuda::RowsIn& rows, std::int64_t first, std::int64_t count, std::int64_t columns)
      : base(rows.data), k_count(columns) {
#pragma unroll
    for (int i = 0; i < cuda::FloatTile::kRowsPerThread; ++i) {
      const std::int64_t index = first + cuda::FloatTile::copied_row(i);
      row[i] = index < count ? static_cast<const char*>(rows.data) + index * rows.stride * 2 : nullptr;
    }
  }
  __device__ __forceinline__ const void* at(int i, std::int64_t k) const { return row[i] != nullptr && k < k_count ? row[i] + k * 2 : nullptr; }
};

template <cuda::RowType Type, cuda::FloatBody Body>
__global__ void __launch_bounds__(cuda::FloatTile::kThreads) linear_float_mma_kernel(const FloatLinearLaunch launch) {
  if constexpr (cuda::float_body_is_built<Body>()) {
    extern __shared__ __align__(128) unsigned char shared[];
    using Tile = cuda::FloatTile;
    const cuda::TileOrder2d tile(std::int64_t(blockIdx.x), (launch.m + Tile::kM - 1) / Tile::kM, (launch.n + Tile::kN - 1) / Tile::kN);
    const std::int64_t first_m = tile.m * Tile::kM, first_n = tile.n * Tile::kN;
    const MatrixRows a(launch.x, first_m, launch.m, launch.k);
    const MatrixRows b(launch.w, first_n, launch.n, launch.k);
    cuda::float_product<Type, Body>(shared, a, b, launch.k, [&](int row, int column, const float4& sum) {
      if (first_m + row < launch.m) device::finish_four(launch, first_m + row, first_n + column, sum);
    });
  }
}

constexpr int kRowThreads = 256;

struct NarrowLaunch {
  cuda::RowsIn x{};
  std::int64_t k = 0;
  std::uint16_t* to = nullptr;  // [M, K]
  float* row_scale = nullptr;   // [M]
};

// A CTA a row: the largest magnitude, then every number after the row's power of two.
__global__ void __launch_bounds__(kRowThreads) narrow_rows_kernel(const NarrowLaunch launch) {
  __shared__ float largest[kRowThreads / cuda::kWarpLanes];
  const std::int64_t m = blockIdx.x, from = m * launch.x.stride;
  float most = 0;
  for (std::int64_t k = threadIdx.x; k < launch.k; k += kRowThreads) most = fmaxf(most, fabsf(cuda::load_one(launch.x.data, launch.x.type, from + k)));
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) most = fmaxf(most, __shfl_xor_sync(cuda::kAllLanes, most, distance));
  if (threadIdx.x % cuda::kWarpLanes == 0) largest[threadIdx.x / cuda::kWarpLanes] = most;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kRowThreads / cuda::kWarpLanes; ++w) most = fmaxf(most, largest[w]);
  const cuda::HalfUnit unit(most);
  if (threadIdx.x == 0) launch.row_scale[m] = unit.scale;
  for (std::int64_t k = threadIdx.x; k < launch.k; k += kRowThreads)
    launch.to[m * launch.k + k] = cuda::bits_f16(cuda::load_one(launch.x.data, launch.x.type, from + k) * unit.unit);
}

__global__ void __launch_bounds__(kRowThreads) scale_rows_kernel(const FloatLinearLaunch launch) {
  const std::int64_t m = blockIdx.x;
  const float scale = launch.row_scale[m];
  float* y = static_cast<float*>(launch.y.data) + m * launch.y.stride;
  for (std::int64_t n = threadIdx.x; n < launch.n; n += kRowThreads) y[n] *= scale;
}

}  // namespace

void launch_narrow_rows(const FloatLinearLaunch& launch, void* to, float* row_scale, void* stream) {
  const NarrowLaunch narrow{.x = launch.x, .k = launch.k, .to = static_cast<std::uint16_t*>(to), .row_scale = row_scale};
  cuda_check(cuda::launch_rows(narrow_rows_kernel, launch.m, kRowThreads, 0, stream, narrow), "linear (x in float16)");
}

void launch_scale_rows(const FloatLinearLaunch& launch, void* stream) {
  cuda_check(cuda::launch_rows(scale_rows_kernel, launch.m, kRowThreads, 0, stream, launch), "linear (scales of rows)");
}

bool fits_float_mma(const FloatLinearLaunch& launch, int sm) {
  const bool has_body = sm >= 80 || (sm >= 75 && launch.x.type == cuda::RowType::f16);
  return has_body && launch.x.type == launch.w.type && launch.x.type != cuda::RowType::f32 && launch.k % 8 == 0 && launch.k > 0 && cuda::is_aligned(launch.x) &&
         cuda::is_aligned(launch.w) && reinterpret_cast<std::uintptr_t>(launch.y.data) % 4 == 0;
}

void launch_float_mma(const FloatLinearLaunch& launch, int sm, void* stream) {
  using Tile = cuda::FloatTile;
  using cuda::FloatBody;
  using cuda::RowType;
  const std::int64_t ctas = ((launch.m + Tile::kM - 1) / Tile::kM) * ((launch.n + Tile::kN - 1) / Tile::kN);
  auto* kernel = &linear_float_mma_kernel<RowType::f16, FloatBody::turing>;
  if (sm >= 80)
    kernel =
        launch.x.type == RowType::bf16 ? &linear_float_mma_kernel<RowType::bf16, FloatBody::async> : &linear_float_mma_kernel<RowType::f16, FloatBody::async>;
  cuda_check(cuda::launch_rows(kernel, ctas, Tile::kThreads, sm >= 80 ? Tile::kSharedBytes : Tile::kTuringSharedBytes, stream, launch), "linear (float, mma)");
}

}  // namespace octavo
