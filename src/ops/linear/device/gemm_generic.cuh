// y = epilogue(x · wᵀ) in W8A8 for everything the fast kernels refuse: any K, any alignment, any stride, every GPU from sm_75 on.
//
//   A CTA of 256 threads computes 64 × 64 sums, a thread 4 rows × 4 columns; slices of 32 bytes of K are gathered byte by byte
//   into shared memory and multiplied four at a time by dp4a. Correct first: about a twentieth of the tensor-core rate.
//
// Shared memory: 2 · 64 rows · 36 bytes; the pitch of 9 words spreads rows over the banks (9 is odd).
#pragma once

#include <cstdint>

#include "ops/linear/device/finish.cuh"
#include "ops/linear/device/gemm_args.h"

namespace octavo::device {

inline constexpr int kGenericTile = 64;
inline constexpr int kGenericSlice = 32;
inline constexpr int kGenericPitch = kGenericSlice + 4;
inline constexpr int kGenericThreads = 256;

__device__ __forceinline__ void gather_rows(std::int8_t (*to)[kGenericPitch], const std::int8_t* rows, std::int64_t stride, std::int64_t rows_left, int k0,
                                            int k) {
  for (int i = int(threadIdx.x); i < kGenericTile * kGenericSlice; i += kGenericThreads) {
    const int row = i / kGenericSlice;
    const int column = i % kGenericSlice;
    to[row][column] = row < rows_left && k0 + column < k ? rows[row * stride + k0 + column] : std::int8_t(0);
  }
}

__global__ void __launch_bounds__(kGenericThreads) gemm_w8a8_generic(const __grid_constant__ GemmArgs args) {
  __shared__ __align__(16) std::int8_t x_slice[kGenericTile][kGenericPitch];
  __shared__ __align__(16) std::int8_t w_slice[kGenericTile][kGenericPitch];
  const int tile_m = int(blockIdx.x) / args.order.tiles_n;  // of both problems together
  const int tile_n = int(blockIdx.x) % args.order.tiles_n;
  const GemmOperand& op = args.operand[tile_m >= args.order.tiles_m0 ? 1 : 0];
  const std::int64_t m0 = std::int64_t(tile_m >= args.order.tiles_m0 ? tile_m - args.order.tiles_m0 : tile_m) * kGenericTile;
  const int n0 = tile_n * kGenericTile;
  const int thread_m = int(threadIdx.x) / 16 * 4;
  const int thread_n = int(threadIdx.x) % 16 * 4;

  int acc[4][4] = {};
  for (int k0 = 0; k0 < args.k; k0 += kGenericSlice) {
    gather_rows(x_slice, op.x + m0 * op.x_stride, op.x_stride, op.m - m0, k0, args.k);
    gather_rows(w_slice, op.w + n0 * op.w_stride, op.w_stride, args.n - n0, k0, args.k);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kGenericSlice; k += 4) {
      int x[4];
      int w[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[i] = *reinterpret_cast<const int*>(&x_slice[thread_m + i][k]);
        w[i] = *reinterpret_cast<const int*>(&w_slice[thread_n + i][k]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) acc[i][j] = __dp4a(x[i], w[j], acc[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (m0 + thread_m + i < op.m && n0 + thread_n < args.n) finish_row_piece<4>(args, op, m0 + thread_m + i, n0 + thread_n, acc[i]);
  }
}

}  // namespace octavo::device
