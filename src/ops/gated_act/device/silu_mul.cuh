// out[m,k] = silu(act_gate[m,k]) · up[m,k],  silu(a) = a / (1 + exp(-a)), float32, then floats or codes.
//
// A team of warps walks over rows, one in registers from its one read to its one write, the next ones on their way to shared memory: 5 bytes of traffic a
// value for bf16 to s8.
// Shared memory (cuda/row/walk.h): the ring of two operands, and when rotating an exchange buffer a warp.
#pragma once

#include "cuda/overlap.cuh"
#include "cuda/row/general.cuh"
#include "cuda/row/ring.cuh"
#include "ops/gated_act/gated_act_launch.h"

namespace octavo::device {

// The reciprocal is the hardware's (1 ulp) and one Newton step, three instructions where a division takes ten; the result is
// within 1 ulp of the rounded quotient. 1 + exp(-a) is held below 2^125 so that the step meets no infinity: where the bound acts
// (a < -86) the quotient is 0 to 36 digits either way. NaN stays NaN, +infinity stays +infinity. `parts`, a power of two up to 16, divides the result.
__device__ __forceinline__ float silu_of(float a, float parts = 1.0f) {
  constexpr float kLargest = 4.25352958651173e37f;  // 2^125
  const float denominator = fminf(fmaf(expf(-a), parts, parts), kLargest);
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(denominator));
  reciprocal = fmaf(reciprocal, fmaf(-denominator, reciprocal, 1.0f), reciprocal);
  return a * reciprocal;
}

template <cuda::RowType Type, int Segments, cuda::RowMode Mode>
__global__ void __launch_bounds__(cuda::kWalkBounds<Segments, 1>.threads, cuda::ctas_per_sm(cuda::kWalkBounds<Segments, 1>))
    silu_mul_kernel(SiluMulLaunch launch) {
  constexpr cuda::LaneOrder kOrder = Mode == cuda::RowMode::floats ? cuda::LaneOrder::halves : cuda::LaneOrder::adjacent;
  using Ring = cuda::RowRing<Type, Segments, 2>;
  extern __shared__ float4 dynamic[];
  const int columns = launch.columns;
  cuda::wait_for_predecessor();
  cuda::let_successor_begin();
  const cuda::WalkShared shared = cuda::walk_shared<Segments, Ring::kBytes>(dynamic, 0, launch.depth);
  cuda::RowReducer reducer(*shared.scratch);
  Ring ring(shared.slots, launch.depth, columns);
  const float parts = Mode == cuda::RowMode::rotated_codes ? launch.out.rotation_unit : 1.0f;  // a power of two: the rotation's halves, all at once
  const auto rows = std::uint32_t(launch.rows);                                                // below 2^31
  const std::uint32_t step = cuda::row_step();
  std::uint32_t row = cuda::first_row();
  for (std::uint32_t ahead = row, end = row + launch.depth * step; ahead != end; ahead += step) {
    if (ahead < rows) {
      ring.fetch(0, launch.act_gate, ahead);
      ring.fetch(1, launch.up, ahead);
    }
    ring.advance();
  }
  for (; row < rows; row += step) {
    const std::uint32_t ahead = row + launch.depth * step;
    float v[Segments][cuda::kLaneValues];
    ring.wait();
#pragma unroll
    for (int s = 0; s < Segments; ++s) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float up[8];
        float* to = v[s] + 8 * half;
        ring.template read8<kOrder>(0, s, half, to);
        ring.template read8<kOrder>(1, s, half, up);
#pragma unroll
        for (int i = 0; i < 8; ++i) to[i] = silu_of(to[i], parts) * up[i];
      }
    }
    __syncwarp();
    if (ahead < rows) {
      ring.fetch(0, launch.act_gate, ahead);
      ring.fetch(1, launch.up, ahead);
    }
    ring.advance();
    cuda::store_row<Mode, kOrder>(v, launch.out, row, columns, reducer, shared.words);
  }
}

__global__ void __launch_bounds__(cuda::kGeneralThreads) silu_mul_general_kernel(SiluMulLaunch launch) {
  extern __shared__ float4 exchange[];
  __shared__ cuda::ReduceScratch scratch;
  cuda::RowReducer reducer(scratch);
  const std::int64_t row = blockIdx.x;
  const auto value = [&](int k) {
    return silu_of(cuda::load_one(launch.act_gate.data, launch.act_gate.type, row * launch.act_gate.stride + k)) *
           cuda::load_one(launch.up.data, launch.up.type, row * launch.up.stride + k);
  };
  cuda::store_row_general(value, launch.out, row, launch.columns, reducer, reinterpret_cast<float*>(exchange));
}

__global__ void __launch_bounds__(256) silu_kernel(SiluLaunch launch) {
  const std::int64_t count = launch.rows * launch.columns;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += std::int64_t(gridDim.x) * blockDim.x) {
    float* x = static_cast<float*>(launch.x.data) + i / launch.columns * launch.x.stride + i % launch.columns;
    *x = silu_of(*x);
  }
}

}  // namespace octavo::device
