// C[128, 128] += A[128, K] · B[128, K]ᵀ of 16-bit floats with float32 sums, for whoever can say where a 16-byte chunk of a row lies.
// Four warps of 64×64; three stages of 32 columns in 48 KB, so that two CTAs share an SM of 99 KB. On Turing, which has neither cp.async nor the long
// mma, two stages in 32 KB: a slice travels through registers while the one before it is multiplied.
#pragma once

#include <cstdint>

#include "cuda/cp_async.cuh"
#include "cuda/ldmatrix.cuh"
#include "cuda/mma_float.cuh"
#include "cuda/shared.cuh"
#include "cuda/swizzle.h"

namespace octavo::cuda {

struct FloatTile {
  static constexpr int kM = 128, kN = 128, kK = 32;
  static constexpr int kStages = 3;
  static constexpr int kThreads = 128;
  static constexpr int kRowBytes = kK * 2;
  static constexpr int kSideBytes = kM * kRowBytes;
  static constexpr int kStageBytes = 2 * kSideBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes;
  static constexpr int kSumRows = 64, kSumStride = kN + 8;  // of float32 on their way out; four rows of a fragment's pairs meet 32 banks
  static_assert(kSumRows * kSumStride * 4 <= kSharedBytes);
  static constexpr int kTuringSharedBytes = kSumRows * kSumStride * 4;  // more than its two stages take
  static_assert(2 * kStageBytes <= kTuringSharedBytes);
  static constexpr int kRowsPerThread = 4;  // a thread copies chunk threadIdx % 4 of rows threadIdx / 4 + 32 i
  static_assert(kM == kN, "both sides are copied by the same pattern");

  // Row of the tile whose chunk this thread copies as its i-th.
  static __device__ __forceinline__ int copied_row(int i) { return int(threadIdx.x) / 4 + 32 * i; }
};

// How slices travel and which mma multiplies them.
enum class FloatBody : std::uint8_t {
  async,   // cp.async, m16n8k16: sm_80 and later
  turing,  // registers, m16n8k8: float16 alone; sm_75 and later
};

// Whether this pass of the compiler makes code for `body`. Turing's is left out on GPUs newer than the newest that tests run it on.
template <FloatBody Body>
__device__ constexpr bool float_body_is_built() {
#ifdef __CUDA_ARCH__
  return Body == FloatBody::async ? __CUDA_ARCH__ >= 800 : __CUDA_ARCH__ <= 900;
#else
  return true;
#endif
}

// A and B: `const void* at(int i, std::int64_t k) const` gives the 8 elements from k on of row FloatTile::copied_row(i), null for zeros; `const void* base`
// is any readable address of the same tensor.
// Store: `void operator()(int m, int n, const float4& c)` takes columns n to n + 3 of row m of the tile; a warp has a whole row at a time.
template <RowType Type, FloatBody Body, class A, class B, class Store>
__device__ __forceinline__ void float_product(unsigned char* shared, const A& a, const B& b, std::int64_t k_count, const Store& store) {
  using Tile = FloatTile;
  static_assert(Body == FloatBody::async || Type == RowType::f16, "Turing multiplies float16 alone");
  const std::uint32_t base = shared_address(shared);
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int warp_m = warp / 2 * 64, warp_n = warp % 2 * 64;
  const int chunk = int(threadIdx.x) % 4;
  const int k_iters = int((k_count + Tile::kK - 1) / Tile::kK);
  float acc[4][8][4] = {};

  const auto multiply = [&](std::uint32_t a_at) {
    const std::uint32_t b_at = a_at + Tile::kSideBytes;
#pragma unroll
    for (int k = 0; k < Tile::kK / 16; ++k) {
      std::uint32_t fragment_a[4][4];
#pragma unroll
      for (int m = 0; m < 4; ++m)
        ldmatrix_x4(fragment_a[m], a_at + std::uint32_t(swizzled_offset<Tile::kRowBytes>(warp_m + m * 16 + lane % 16, 2 * k + lane / 16)));
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        std::uint32_t fragment_b[4];
        ldmatrix_x4(fragment_b, b_at + std::uint32_t(swizzled_offset<Tile::kRowBytes>(warp_n + n * 8 + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2)));
#pragma unroll
        for (int m = 0; m < 4; ++m) {
          if constexpr (Body == FloatBody::async) {
            mma_m16n8k16<Type>(acc[m][n], fragment_a[m], fragment_b[0], fragment_b[1]);
            mma_m16n8k16<Type>(acc[m][n + 1], fragment_a[m], fragment_b[2], fragment_b[3]);
          } else {
            mma_2_m16n8k8_f16(acc[m][n], fragment_a[m], fragment_b[0], fragment_b[1]);
            mma_2_m16n8k8_f16(acc[m][n + 1], fragment_a[m], fragment_b[2], fragment_b[3]);
          }
        }
      }
    }
  };

  if constexpr (Body == FloatBody::async) {
    const auto fill = [&](int k_iter) {
      const std::uint32_t stage = base + std::uint32_t(k_iter % Tile::kStages * Tile::kStageBytes);
      const std::int64_t k = std::int64_t(k_iter) * Tile::kK + chunk * 8;
#pragma unroll
      for (int i = 0; i < Tile::kRowsPerThread; ++i) {
        const auto offset = std::uint32_t(swizzled_offset<Tile::kRowBytes>(Tile::copied_row(i), chunk));
        const void* from_a = a.at(i, k);
        const void* from_b = b.at(i, k);
        cp_async_16b_or_zero(stage + offset, from_a != nullptr ? from_a : a.base, from_a != nullptr ? 1u : 0u);
        cp_async_16b_or_zero(stage + Tile::kSideBytes + offset, from_b != nullptr ? from_b : b.base, from_b != nullptr ? 1u : 0u);
      }
    };
    for (int i = 0; i < Tile::kStages - 1; ++i) {
      if (i < k_iters) fill(i);
      cp_async_commit();
    }
    for (int k_iter = 0; k_iter < k_iters; ++k_iter) {
      cp_async_wait<Tile::kStages - 2>();
      __syncthreads();  // the stage is there for all, and nobody reads the one that is filled next
      if (k_iter + Tile::kStages - 1 < k_iters) fill(k_iter + Tile::kStages - 1);
      cp_async_commit();
      multiply(base + std::uint32_t(k_iter % Tile::kStages * Tile::kStageBytes));
    }
  } else {
    uint4 next_a[Tile::kRowsPerThread], next_b[Tile::kRowsPerThread];
    const auto fetch = [&](int k_iter) {
      const std::int64_t k = std::int64_t(k_iter) * Tile::kK + chunk * 8;
#pragma unroll
      for (int i = 0; i < Tile::kRowsPerThread; ++i) {
        const void* from_a = a.at(i, k);
        const void* from_b = b.at(i, k);
        next_a[i] = from_a != nullptr ? *static_cast<const uint4*>(from_a) : make_uint4(0, 0, 0, 0);
        next_b[i] = from_b != nullptr ? *static_cast<const uint4*>(from_b) : make_uint4(0, 0, 0, 0);
      }
    };
    const auto put = [&](int k_iter) {
      const std::uint32_t stage = base + std::uint32_t(k_iter % 2 * Tile::kStageBytes);
#pragma unroll
      for (int i = 0; i < Tile::kRowsPerThread; ++i) {
        const auto offset = std::uint32_t(swizzled_offset<Tile::kRowBytes>(Tile::copied_row(i), chunk));
        store_shared_16b(stage + offset, next_a[i]);
        store_shared_16b(stage + Tile::kSideBytes + offset, next_b[i]);
      }
    };
    fetch(0);
    put(0);
    __syncthreads();
    for (int k_iter = 0; k_iter < k_iters; ++k_iter) {
      const bool has_next = k_iter + 1 < k_iters;
      if (has_next) fetch(k_iter + 1);
      multiply(base + std::uint32_t(k_iter % 2 * Tile::kStageBytes));
      if (has_next) put(k_iter + 1);  // the stage that was read in the pass before, which ended in a barrier
      __syncthreads();
    }
  }
  // Half of the rows at a time go through the stages' memory, so that a warp stores a row and there is one copy of the code that does: a copy for each sum was
  // 30 s of compiling, and more instructions than an SM caches.
  float* const sums = reinterpret_cast<float*>(shared);
#pragma unroll 1
  for (int half = 0; half < Tile::kM; half += Tile::kSumRows) {
    __syncthreads();  // all have read the last stage, or the half before
    if (warp_m == half) {
#pragma unroll
      for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          float* const to = sums + (m * 16 + lane / 4) * Tile::kSumStride + warp_n + n * 8 + lane % 4 * 2;
          *reinterpret_cast<float2*>(to) = make_float2(acc[m][n][0], acc[m][n][1]);
          *reinterpret_cast<float2*>(to + 8 * Tile::kSumStride) = make_float2(acc[m][n][2], acc[m][n][3]);
        }
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int row = warp; row < Tile::kSumRows; row += Tile::kThreads / 32)
      store(half + row, lane * 4, *reinterpret_cast<const float4*>(sums + row * Tile::kSumStride + lane * 4));
  }
}

// Tile coordinates of CTA `index` in an order that keeps eight row tiles and a band of columns in L2.
struct TileOrder2d {
  std::int64_t m = 0, n = 0;
  __device__ __forceinline__ TileOrder2d(std::int64_t index, std::int64_t m_tiles, std::int64_t n_tiles) {
    constexpr std::int64_t kBand = 8;
    const std::int64_t band = index / (kBand * n_tiles), first = band * kBand;
    const std::int64_t height = m_tiles - first < kBand ? m_tiles - first : kBand;
    const std::int64_t rest = index - band * kBand * n_tiles;
    m = first + rest % height;
    n = rest / height;
  }
};

}  // namespace octavo::cuda
