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
  std::int64_t period;  // columns from here on are those from 0 on, up to twice

  __device__ __forceinline__ MatrixRows(const cuda::RowsIn& rows, std::int64_t first, std::int64_t count, std::int64_t columns, std::int64_t repeats_after)
      : base(rows.data), k_count(columns), period(repeats_after) {
#pragma unroll
    for (int i = 0; i < cuda::FloatTile::kRowsPerThread; ++i) {
      const std::int64_t index = first + cuda::FloatTile::copied_row(i);
      row[i] = index < count ? static_cast<const char*>(rows.data) + index * rows.stride * 2 : nullptr;
    }
  }
  __device__ __forceinline__ const void* at(int i, std::int64_t k) const {
    if (row[i] == nullptr || k >= k_count) return nullptr;
    return row[i] + (k < period ? k : k < 2 * period ? k - period : k - 2 * period) * 2;
  }
};

template <cuda::RowType Type, cuda::FloatBody Body>
__global__ void __launch_bounds__(cuda::FloatTile::kThreads) linear_float_mma_kernel(const FloatLinearLaunch launch) {
  if constexpr (cuda::float_body_is_built<Body>()) {
    extern __shared__ __align__(128) unsigned char shared[];
    using Tile = cuda::FloatTile;
    const cuda::TileOrder2d tile(std::int64_t(blockIdx.x), (launch.m + Tile::kM - 1) / Tile::kM, (launch.n + Tile::kN - 1) / Tile::kN);
    const std::int64_t first_m = tile.m * Tile::kM, first_n = tile.n * Tile::kN;
    const MatrixRows a(launch.x, first_m, launch.m, launch.k, launch.k);
    const MatrixRows b(launch.w, first_n, launch.n, launch.k, launch.w_columns > 0 ? launch.w_columns : launch.k);
    cuda::float_product<Type, Body>(shared, a, b, launch.k, [&](int row, int column, float c0, float c1) {
      const std::int64_t m = first_m + row, n = first_n + column;
      if (m >= launch.m) return;
      const std::int64_t at = m * launch.y.stride + n;
      const bool is_pair = n + 1 < launch.n;
      if (n < launch.n) c0 = device::finish_float(launch, m, n, c0);
      if (is_pair) c1 = device::finish_float(launch, m, n + 1, c1);
      if (is_pair && launch.y.type == cuda::RowType::bf16 && at % 2 == 0) {
        *reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(launch.y.data) + at) = cuda::pack_bf16x2(c0, c1);
        return;
      }
      if (n < launch.n) cuda::store_one(launch.y.data, launch.y.type, at, c0);
      if (is_pair) cuda::store_one(launch.y.data, launch.y.type, at + 1, c1);
    });
  }
}

constexpr int kSplitThreads = 256;

// The upper 16 bits of a float32 are a bf16 nearer to zero: what is left then has 8 bits less, and two more cuts take the rest. An infinity or NaN has no rest.
__device__ __forceinline__ std::uint32_t cut_bf16(float& rest) {
  const std::uint32_t high = __float_as_uint(rest) & 0xffff0000u;
  const bool is_finite = (high & 0x7f800000u) != 0x7f800000u;
  // A NaN whose bits lie in the lower half would become an infinity.
  const std::uint32_t kept = is_finite || rest == rest ? high : 0x7fc00000u;
  rest = is_finite ? rest - __uint_as_float(high) : 0.0f;
  return kept >> 16;
}

struct SplitLaunch {
  const float* x = nullptr;
  std::int64_t stride = 0, k = 0;
  std::uint16_t* parts = nullptr;
};

struct SplitF16Launch {
  cuda::RowsIn x{};
  std::int64_t k = 0;
  int parts = 1;
  std::uint16_t* to = nullptr;  // [M, parts · K]
  float* row_scale = nullptr;   // [M]
};

__global__ void __launch_bounds__(kSplitThreads) split_bf16_kernel(const SplitLaunch launch) {
  const std::int64_t m = blockIdx.x;
  const float* row = launch.x + m * launch.stride;
  std::uint16_t* out = launch.parts + m * 3 * launch.k;
  for (std::int64_t k = 2 * threadIdx.x; k < launch.k; k += 2 * kSplitThreads) {
    const float2 two = *reinterpret_cast<const float2*>(row + k);
    float a = two.x, b = two.y;
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      const std::uint32_t low = cut_bf16(a), high = cut_bf16(b);
      *reinterpret_cast<std::uint32_t*>(out + part * launch.k + k) = low | high << 16;
    }
  }
}

// A CTA a row: the largest magnitude, then x · unit = high + low + what 22 bits do not hold.
__global__ void __launch_bounds__(kSplitThreads) split_f16_kernel(const SplitF16Launch launch) {
  __shared__ float largest[kSplitThreads / cuda::kWarpLanes];
  const std::int64_t m = blockIdx.x, from = m * launch.x.stride;
  float most = 0;
  for (std::int64_t k = threadIdx.x; k < launch.k; k += kSplitThreads) most = fmaxf(most, fabsf(cuda::load_one(launch.x.data, launch.x.type, from + k)));
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) most = fmaxf(most, __shfl_xor_sync(cuda::kAllLanes, most, distance));
  if (threadIdx.x % cuda::kWarpLanes == 0) largest[threadIdx.x / cuda::kWarpLanes] = most;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kSplitThreads / cuda::kWarpLanes; ++w) most = fmaxf(most, largest[w]);
  const cuda::HalfUnit unit(most);
  if (threadIdx.x == 0) launch.row_scale[m] = unit.scale;
  std::uint16_t* to = launch.to + m * launch.parts * launch.k;
  for (std::int64_t k = threadIdx.x; k < launch.k; k += kSplitThreads) {
    const float v = cuda::load_one(launch.x.data, launch.x.type, from + k) * unit.unit;
    const std::uint16_t high = cuda::bits_f16(v);
    to[k] = high;
    if (launch.parts == 1) continue;
    const float kept = cuda::float_of_f16(high);
    to[launch.k + k] = isfinite(kept) ? cuda::bits_f16(v - kept) : std::uint16_t(0);  // an infinity or NaN has no rest
  }
}

__global__ void __launch_bounds__(kSplitThreads) scale_rows_kernel(const FloatLinearLaunch launch) {
  const std::int64_t m = blockIdx.x;
  const float scale = launch.row_scale[m];
  float* y = static_cast<float*>(launch.y.data) + m * launch.y.stride;
  for (std::int64_t n = threadIdx.x; n < launch.n; n += kSplitThreads) y[n] *= scale;
}

}  // namespace

void launch_scale_rows(const FloatLinearLaunch& launch, void* stream) {
  cuda_check(cuda::launch_rows(scale_rows_kernel, launch.m, kSplitThreads, 0, stream, launch), "linear (scales of rows)");
}

void launch_split_f16(const FloatLinearLaunch& launch, int parts, void* to, float* row_scale, void* stream) {
  const SplitF16Launch split{.x = launch.x, .k = launch.k, .parts = parts, .to = static_cast<std::uint16_t*>(to), .row_scale = row_scale};
  cuda_check(cuda::launch_rows(split_f16_kernel, launch.m, kSplitThreads, 0, stream, split), "linear (float16 in parts)");
}

void launch_split_bf16(const FloatLinearLaunch& launch, void* parts, void* stream) {
  const SplitLaunch split{.x = static_cast<const float*>(launch.x.data), .stride = launch.x.stride, .k = launch.k, .parts = static_cast<std::uint16_t*>(parts)};
  cuda_check(cuda::launch_rows(split_bf16_kernel, launch.m, kSplitThreads, 0, stream, split), "linear (float32 in parts)");
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
