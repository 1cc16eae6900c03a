// y[m,k] = ((x[m,k] - mean) · rsqrt(mean (x - mean)² + eps)) · weight[k] · (1 + mod_scale[k])      mean = 0 for rms_norm
//
// A team of warps walks over rows (first, first + step, …), one in registers and the next ones on their way to shared memory. The teams of a CTA share
// weight · (1 + mod_scale), staged once as float32, swizzled (cuda/row/row.h): read again for every row, or by many small CTAs, it would cost more bytes
// from L2 than the rows do.
// Shared memory (cuda/row/walk.h): one vector, the ring, and when rotating an exchange buffer a warp.
#pragma once

#include "cuda/overlap.cuh"
#include "ops/norm_modulate/device/norm_math.cuh"

namespace octavo::device {

template <cuda::RowType Type, int Segments, cuda::RowMode Mode, bool Centered>
__global__ void __launch_bounds__(cuda::kWalkBounds<Segments, cuda::kMaxTeams>.threads, cuda::ctas_per_sm(cuda::kWalkBounds<Segments, cuda::kMaxTeams>))
    norm_rows_kernel(NormLaunch launch) {
  constexpr cuda::LaneOrder kOrder = Mode == cuda::RowMode::floats ? cuda::LaneOrder::halves : cuda::LaneOrder::adjacent;
  using Ring = cuda::RowRing<Type, Segments, 1>;
  extern __shared__ float4 dynamic[];
  const int columns = launch.columns;
  cuda::wait_for_predecessor();
  cuda::let_successor_begin();
  const cuda::WalkShared shared = cuda::walk_shared<Segments, Ring::kBytes>(dynamic, 1, launch.depth);
  cuda::RowReducer reducer(*shared.scratch, true);
  Ring ring(shared.slots, launch.depth, columns);
  const auto rows = std::uint32_t(launch.rows);  // below 2^31
  const std::uint32_t step = cuda::row_step();
  std::uint32_t row = cuda::first_row();
  for (std::uint32_t ahead = row, end = row + launch.depth * step; ahead != end; ahead += step) {
    if (ahead < rows) ring.fetch(0, launch.x, ahead);
    ring.advance();
  }
  stage_gain(launch.weight, launch.mod_scale, launch.x.data, columns, cuda::vector_words(int(blockDim.x), Segments), shared.vectors);
  __syncthreads();

  for (; row < rows; row += step) {
    const std::uint32_t ahead = row + launch.depth * step;
    float v[Segments][cuda::kLaneValues];
    ring.wait();
    ring.template read<kOrder>(0, v);
    __syncwarp();
    if (ahead < rows) ring.fetch(0, launch.x, ahead);
    ring.advance();

    if constexpr (Centered) {
      const int lane = int(threadIdx.x) % cuda::kWarpLanes;
      const int first_segment = int(threadIdx.x) / cuda::kWarpLanes * Segments * cuda::kSegment;
      float sum = 0;
#pragma unroll
      for (int s = 0; s < Segments; ++s) {
#pragma unroll
        for (int i = 0; i < cuda::kLaneValues; ++i) sum += v[s][i];
      }
      const float center = reducer.sum(sum) * launch.inverse_columns;
#pragma unroll
      for (int s = 0; s < Segments; ++s) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (first_segment + cuda::kSegment * s + cuda::chunk_of<kOrder>(lane, half) >= columns) continue;  // stays zero
#pragma unroll
          for (int i = 8 * half; i < 8 * half + 8; ++i) v[s][i] -= center;
        }
      }
    }
    normalise_and_store<Mode, kOrder>(v, shared.vectors, launch.inverse_columns, launch.eps, launch.out, row, columns, reducer, shared.words);
  }
}

__global__ void __launch_bounds__(cuda::kGeneralThreads) norm_rows_general_kernel(NormLaunch launch) {
  extern __shared__ float4 dynamic[];
  __shared__ cuda::ReduceScratch scratch;
  cuda::RowReducer reducer(scratch);
  const std::int64_t row = blockIdx.x;
  const int columns = launch.columns;
  const auto x = [&](int k) { return cuda::load_one(launch.x.data, launch.x.type, row * launch.x.stride + k); };
  float center = 0;
  if (launch.center) {
    float sum = 0;
    for (int k = int(threadIdx.x); k < columns; k += int(blockDim.x)) sum += x(k);
    center = reducer.sum(sum) * __fdiv_rn(1.0f, float(columns));
  }
  float squares = 0;
  for (int k = int(threadIdx.x); k < columns; k += int(blockDim.x)) squares = fmaf(x(k) - center, x(k) - center, squares);
  const float inverse = inverse_deviation(reducer.sum(squares), launch.inverse_columns, launch.eps);
  const auto value = [&](int k) {
    return ((x(k) - center) * inverse) * vector_value(launch.weight, k, 1.0f) * (1.0f + vector_value(launch.mod_scale, k, 0.0f));
  };
  cuda::store_row_general(value, launch.out, row, columns, reducer, reinterpret_cast<float*>(dynamic));
}

}  // namespace octavo::device
