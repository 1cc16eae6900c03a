// y = x Wᵀ of float32 rows and bf16 weights on the tensor cores. A float32 is the sum of three bf16 parts (8 bits each), so every product of parts is exact:
//   sum += x_high · w,  sum += x_middle · w,  sum += x_low · w      for 16 columns at a time, in float32
//
// A CTA: 32 rows × 128 outputs, because the projection that needs it most has 128 outputs and 4096 rows: 128 CTAs. Eight warps, two along the rows, four that
// deal out the columns of K: of a stage of 64, each takes 16. At the end their four sums are added in order, ((0 + 1) + 2) + 3. Tile and order are the same for
// all sizes, so a row's bits do not depend on how many there are. Shared memory: 4 stages × (x [32][64] float32 | w [128][64] bf16), 96 KB; the four sums take
// its place at the end.
#include "cuda/cp_async.cuh"
#include "cuda/float_product.cuh"
#include "cuda/ldmatrix.cuh"
#include "cuda/mma_float.cuh"
#include "cuda/row/launch.h"
#include "cuda/shared.cuh"
#include "cuda/swizzle.h"
#include "device/cuda_check.h"
#include "ops/linear/device/finish_float.cuh"

namespace octavo {
namespace {

struct PartsTile {
  static constexpr int kM = 32, kN = 128, kK = 64, kStages = 4, kThreads = 256;
  static constexpr int kWarpsK = 4;  // × 2 along M, 16 rows each
  static constexpr int kXBytes = kM * kK * 4, kWRowBytes = kK * 2, kWBytes = kN * kWRowBytes, kStageBytes = kXBytes + kWBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes;
  static constexpr int kXCopies = kXBytes / 16 / kThreads, kWCopies = kWBytes / 16 / kThreads;  // chunks of 16 bytes a thread
  static constexpr int kSumStride = kN + 8;                                                     // four rows of a fragment's pairs meet 32 banks
  static_assert(kSharedBytes <= 99 * 1024 && kWarpsK * kM * kSumStride * 4 <= kSharedBytes);
  static_assert(kK == kWarpsK * 16, "a warp takes one step of the tensor cores in each stage");
};

// Where chunk (16 bytes) of a row of x lies: half a warp reads two neighbouring chunks of four rows at once.
__device__ __forceinline__ int x_offset(int row, int chunk) { return row * PartsTile::kK * 4 + ((chunk ^ (2 * (row & 3))) << 4); }

// bf16 numbers in the upper halves.
struct Parts {
  std::uint32_t high, middle, low;
};

// The upper half of a float32 is a bf16 nearer to zero; what is left has 8 bits less, and once more. An infinity or a NaN has no rest.
__device__ __forceinline__ Parts parts_of(float x) {
  Parts parts;
  // A NaN whose bits lie in the lower half would become an infinity.
  parts.high = x == x ? __float_as_uint(x) & 0xffff0000u : 0x7fc00000u;
  float rest = __fsub_rn(x, __uint_as_float(parts.high));
  rest = rest == rest ? rest : 0.0f;
  parts.middle = __float_as_uint(rest) & 0xffff0000u;
  parts.low = __float_as_uint(__fsub_rn(rest, __uint_as_float(parts.middle)));
  return parts;
}

__device__ __forceinline__ std::uint32_t upper_halves(std::uint32_t first, std::uint32_t second) { return __byte_perm(first, second, 0x7632); }

__global__ void __launch_bounds__(PartsTile::kThreads, 2) linear_float_parts_kernel(const FloatLinearLaunch launch) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(128) unsigned char shared[];
  using Tile = PartsTile;
  const std::uint32_t base = cuda::shared_address(shared);
  const int thread = int(threadIdx.x), lane = thread % 32, warp_k = thread / 32 % Tile::kWarpsK, warp_m = thread / 32 / Tile::kWarpsK * 16;
  const cuda::TileOrder2d tile(std::int64_t(blockIdx.x), (launch.m + Tile::kM - 1) / Tile::kM, (launch.n + Tile::kN - 1) / Tile::kN);
  const std::int64_t first_m = tile.m * Tile::kM, first_n = tile.n * Tile::kN;
  const int k_iters = int((launch.k + Tile::kK - 1) / Tile::kK);

  // Copies: chunk `thread % 16` of rows thread / 16 + 16 i of x, chunk `thread % 8` of rows thread / 8 + 32 i of w; zeros past the ends.
  const int x_rows_left = int(launch.m - first_m < Tile::kM ? launch.m - first_m : Tile::kM) - thread / 16;
  const int w_rows_left = int(launch.n - first_n < Tile::kN ? launch.n - first_n : Tile::kN) - thread / 8;
  const float* const x_from = static_cast<const float*>(launch.x.data) + (first_m + thread / 16) * launch.x.stride + thread % 16 * 4;
  const std::uint16_t* const w_from = static_cast<const std::uint16_t*>(launch.w.data) + (first_n + thread / 8) * launch.w.stride + thread % 8 * 8;
  const auto fill = [&](int k_iter) {
    const std::uint32_t stage = base + std::uint32_t(k_iter % Tile::kStages * Tile::kStageBytes);
    const std::int64_t k = std::int64_t(k_iter) * Tile::kK;
    const bool has_x = k + thread % 16 * 4 < launch.k, has_w = k + thread % 8 * 8 < launch.k;
#pragma unroll
    for (int i = 0; i < Tile::kXCopies; ++i) {
      const bool is_there = has_x && 16 * i < x_rows_left;
      cuda::cp_async_16b_or_zero(stage + std::uint32_t(x_offset(thread / 16 + 16 * i, thread % 16)),
                                 is_there ? x_from + 16 * i * launch.x.stride + k : launch.x.data, is_there);
    }
#pragma unroll
    for (int i = 0; i < Tile::kWCopies; ++i) {
      const bool is_there = has_w && 32 * i < w_rows_left;
      cuda::cp_async_16b_or_zero(stage + Tile::kXBytes + std::uint32_t(cuda::swizzled_offset<Tile::kWRowBytes>(thread / 8 + 32 * i, thread % 8)),
                                 is_there ? w_from + 32 * i * launch.w.stride + k : launch.w.data, is_there);
    }
  };

  for (int i = 0; i < Tile::kStages - 1; ++i) {
    if (i < k_iters) fill(i);
    cuda::cp_async_commit();
  }
  float acc[Tile::kN / 8][4] = {};
  for (int k_iter = 0; k_iter < k_iters; ++k_iter) {
    cuda::cp_async_wait<Tile::kStages - 2>();
    __syncthreads();  // the stage is there for all, and nobody reads the one that is filled next
    if (k_iter + Tile::kStages - 1 < k_iters) fill(k_iter + Tile::kStages - 1);
    cuda::cp_async_commit();
    const std::uint32_t x_at = base + std::uint32_t(k_iter % Tile::kStages * Tile::kStageBytes), w_at = x_at + Tile::kXBytes;
    std::uint32_t a[3][4];  // fragments of the three parts: cuda/mma_float.cuh
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = warp_m + lane / 4 + i % 2 * 8, chunk = warp_k * 4 + lane % 4 / 2 + i / 2 * 2;
      const float2 two = *reinterpret_cast<const float2*>(shared + (x_at - base) + x_offset(row, chunk) + lane % 2 * 8);
      const Parts p = parts_of(two.x), q = parts_of(two.y);
      a[0][i] = upper_halves(p.high, q.high);
      a[1][i] = upper_halves(p.middle, q.middle);
      a[2][i] = upper_halves(p.low, q.low);
    }
#pragma unroll
    for (int n = 0; n < Tile::kN / 8; n += 8) {  // eight sums in turn hide the latency of one
      std::uint32_t b[4][4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int row = (n + 2 * j) * 8 + lane % 8 + lane / 16 * 8;
        cuda::ldmatrix_x4(b[j], w_at + std::uint32_t(cuda::swizzled_offset<Tile::kWRowBytes>(row, 2 * warp_k + lane / 8 % 2)));
      }
#pragma unroll
      for (int part = 0; part < 3; ++part) {
#pragma unroll
        for (int j = 0; j < 8; ++j) cuda::mma_m16n8k16<cuda::RowType::bf16>(acc[n + j], a[part], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
  }

  __syncthreads();  // all have read the last stage, and no copy is under way
  float* const sums = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int n = 0; n < Tile::kN / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_k * Tile::kM + warp_m + lane / 4 + 8 * half, column = n * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(sums + row * Tile::kSumStride + column) = make_float2(acc[n][2 * half], acc[n][2 * half + 1]);
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int i = thread; i < Tile::kM * Tile::kN / 4; i += Tile::kThreads) {
    const int row = i / (Tile::kN / 4), column = i % (Tile::kN / 4) * 4;
    if (first_m + row >= launch.m) break;
    const float* from = sums + row * Tile::kSumStride + column;
    float4 sum = *reinterpret_cast<const float4*>(from);
#pragma unroll
    for (int slice = 1; slice < Tile::kWarpsK; ++slice) {
      const float4 more = *reinterpret_cast<const float4*>(from + slice * Tile::kM * Tile::kSumStride);
      sum = make_float4(__fadd_rn(sum.x, more.x), __fadd_rn(sum.y, more.y), __fadd_rn(sum.z, more.z), __fadd_rn(sum.w, more.w));
    }
    device::finish_four(launch, first_m + row, first_n + column, sum);
  }
#else
  static_cast<void>(&x_offset);  // not built for Turing
  static_cast<void>(&parts_of);
  static_cast<void>(&upper_halves);
#endif
}

}  // namespace

bool fits_float_parts(const FloatLinearLaunch& launch, int sm) {
  return sm >= 80 && launch.x.type == cuda::RowType::f32 && launch.w.type == cuda::RowType::bf16 && launch.k % 8 == 0 && launch.k > 0 &&
         cuda::is_aligned(launch.x) && cuda::is_aligned(launch.w);
}

void launch_float_parts(const FloatLinearLaunch& launch, void* stream) {
  using Tile = PartsTile;
  const std::int64_t ctas = ((launch.m + Tile::kM - 1) / Tile::kM) * ((launch.n + Tile::kN - 1) / Tile::kN);
  cuda_check(cuda::launch_rows(&linear_float_parts_kernel, ctas, Tile::kThreads, Tile::kSharedBytes, stream, launch), "linear (float32 in three parts)");
}

}  // namespace octavo
