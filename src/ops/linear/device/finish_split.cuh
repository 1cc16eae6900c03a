// The second half of a split launch: adds the partial sums and finishes them. Integers: the same sums as without a split.
#pragma once

#include <cstdint>

#include "ops/linear/device/finish.cuh"
#include "ops/linear/device/gemm_args.h"

namespace octavo::device {

inline constexpr int kFinishThreads = 256;

// Four columns a thread.   partial s32 [splits][M0 + M1][N], rows of the second problem after those of the first
__global__ void __launch_bounds__(kFinishThreads) finish_split(const __grid_constant__ GemmArgs args, const int* partial, int splits) {
  const std::int64_t quads = (args.n + 3) / 4;
  const std::int64_t index = std::int64_t(blockIdx.x) * kFinishThreads + threadIdx.x;
  const std::int64_t row = index / quads;
  if (row >= std::int64_t(args.operand[0].m) + args.operand[1].m) return;
  const int n = int(index - row * quads) * 4;
  int acc[4] = {};
  for (int split = 0; split < splits; ++split) {
    const int* from = partial + split * args.split_stride + row * args.n + n;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (n + i < args.n) acc[i] += from[i];
    }
  }
  const bool second = row >= args.operand[0].m;
  finish_row_piece<4>(args, args.operand[second ? 1 : 0], second ? row - args.operand[0].m : row, n, acc);
}

}  // namespace octavo::device
