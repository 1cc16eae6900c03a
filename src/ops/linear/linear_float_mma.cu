// y = x Wᵀ of 16-bit floats on the tensor cores. One kernel for all M and N, so that a row's bits do not depend on how many there are.
#include "cuda/float_product.cuh"
#include "cuda/row/launch.h"
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

template <cuda::RowType Type>
__global__ void __launch_bounds__(cuda::FloatTile::kThreads) linear_float_mma_kernel(const FloatLinearLaunch launch) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(128) unsigned char shared[];
  using Tile = cuda::FloatTile;
  const cuda::TileOrder2d tile(std::int64_t(blockIdx.x), (launch.m + Tile::kM - 1) / Tile::kM, (launch.n + Tile::kN - 1) / Tile::kN);
  const std::int64_t first_m = tile.m * Tile::kM, first_n = tile.n * Tile::kN;
  const MatrixRows a(launch.x, first_m, launch.m, launch.k);
  const MatrixRows b(launch.w, first_n, launch.n, launch.k);
  cuda::float_product<Type>(shared, a, b, launch.k, [&](int row, int column, const float4& sum) {
    if (first_m + row < launch.m) device::finish_four(launch, first_m + row, first_n + column, sum);
  });
#else
  static_cast<void>(&MatrixRows::at);  // not built for Turing
#endif
}

}  // namespace

bool fits_float_mma(const FloatLinearLaunch& launch, int sm) {
  return sm >= 80 && launch.x.type == launch.w.type && launch.x.type != cuda::RowType::f32 && launch.k % 8 == 0 && launch.k > 0 && cuda::is_aligned(launch.x) &&
         cuda::is_aligned(launch.w) && reinterpret_cast<std::uintptr_t>(launch.y.data) % 4 == 0;
}

void launch_float_mma(const FloatLinearLaunch& launch, void* stream) {
  using Tile = cuda::FloatTile;
  const std::int64_t ctas = ((launch.m + Tile::kM - 1) / Tile::kM) * ((launch.n + Tile::kN - 1) / Tile::kN);
  auto* kernel = launch.x.type == cuda::RowType::bf16 ? &linear_float_mma_kernel<cuda::RowType::bf16> : &linear_float_mma_kernel<cuda::RowType::f16>;
  cuda_check(cuda::launch_rows(kernel, ctas, Tile::kThreads, Tile::kSharedBytes, stream, launch), "linear (float, mma)");
}

}  // namespace octavo
