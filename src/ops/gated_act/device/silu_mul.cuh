// out[m,k] = silu(act_gate[m,k]) · up[m,k],  silu(a) = a / (1 + exp(-a)), float32, then floats or codes.
//
// One CTA a row, the row in registers from the one read to the one write: 5 bytes of traffic a value for bf16 to s8.
// Shared memory: reduction scratch (256 B), and 2112 B a warp when rotating.
#pragma once

#include "cuda/row/general.cuh"
#include "cuda/row/quantize.cuh"
#include "ops/gated_act/gated_act_launch.h"

namespace octavo::device {

// The reciprocal is the hardware's (1 ulp) and one Newton step, three instructions where a division takes ten; the result is
// within 1 ulp of the rounded quotient. 1 + exp(-a) is held below 2^125 so that the step meets no infinity: where the bound acts
// (a < -86) the quotient is 0 to 36 digits either way. NaN stays NaN, +infinity stays +infinity.
__device__ __forceinline__ float silu_of(float a) {
  constexpr float kLargest = 4.25352958651173e37f;  // 2^125
  const float denominator = fminf(1.0f + expf(-a), kLargest);
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(denominator));
  reciprocal = fmaf(reciprocal, fmaf(-denominator, reciprocal, 1.0f), reciprocal);
  return a * reciprocal;
}

template <cuda::RowType Type, int Segments, cuda::RowMode Mode>
__global__ void __launch_bounds__(cuda::kMaxRowThreads, cuda::ctas_per_sm(Segments == 1 ? 4 : 2)) silu_mul_kernel(SiluMulLaunch launch) {
  constexpr cuda::LaneOrder kOrder = Mode == cuda::RowMode::floats ? cuda::LaneOrder::halves : cuda::LaneOrder::adjacent;
  extern __shared__ float4 exchange[];
  __shared__ cuda::ReduceScratch scratch;
  cuda::RowReducer reducer(scratch);
  float* words = reinterpret_cast<float*>(exchange) + std::int64_t(threadIdx.x / cuda::kWarpLanes) * cuda::kExchangeWords;
  const std::int64_t row = blockIdx.x;
  const float unit = 1.0f / launch.out.rotation_unit;  // a power of two: the rotation's halves, all at once

  cuda::Raw8<Type> raw_gate[Segments][2];
  cuda::Raw8<Type> raw_up[Segments][2];
  cuda::load_row<Type, kOrder>(raw_gate, launch.act_gate, row, launch.columns);
  cuda::load_row<Type, kOrder>(raw_up, launch.up, row, launch.columns);
  float v[Segments][cuda::kLaneValues];
#pragma unroll
  for (int s = 0; s < Segments; ++s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float up[8];
      float* to = v[s] + 8 * half;
      cuda::unpack8<Type>(raw_gate[s][half], to);
      cuda::unpack8<Type>(raw_up[s][half], up);
#pragma unroll
      for (int i = 0; i < 8; ++i) to[i] = silu_of(to[i]) * (Mode == cuda::RowMode::rotated_codes ? up[i] * unit : up[i]);
    }
  }
  cuda::store_row<Mode, kOrder>(v, launch.out, row, launch.columns, reducer, words);
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
