// q[m,k] = rint(x[m,k] · 127 / absmax(m)),  scale[m] = absmax(m) / 127, after an optional smoothing and rotation.     numerics.md sections 3, 6
//
// A team of warps walks over rows (first, first + step, …), one in registers from its one read to its one write, the next ones on their way to shared memory:
// 3 bytes of traffic a value for bf16. Each warp owns one or three segments of 512 values; a rotation group of up to 256 never leaves it.
// Shared memory (cuda/row/walk.h): when smoothing its vector, the ring, and when rotating an exchange buffer a warp.
#pragma once

#include "cuda/overlap.cuh"
#include "cuda/row/general.cuh"
#include "cuda/row/parameters.cuh"
#include "cuda/row/ring.cuh"
#include "ops/quantize/quantize_launch.h"

namespace octavo::device {

// smooth[k] for the columns, 1 beyond the last, where rows hold zeros; swizzled (cuda/row/row.h). By all threads of the CTA; columns a multiple of 16.
__device__ __forceinline__ void stage_smoothing(const float* smooth, int columns, int words, float* to) {
  for (int k = 4 * int(threadIdx.x); k < words; k += 4 * int(blockDim.x)) {
    const float4 four = k < columns ? __ldg(reinterpret_cast<const float4*>(smooth + k)) : make_float4(1, 1, 1, 1);
    *reinterpret_cast<float4*>(to + cuda::swizzle_word(k)) = four;
  }
}

template <cuda::LaneOrder Order, int Segments>
__device__ __forceinline__ void smooth_row(float (&v)[Segments][cuda::kLaneValues], const float* smooth, bool divides) {
  const int thread = int(cuda::recomputed(threadIdx.x));
  const int lane = thread % cuda::kWarpLanes;
  const int first_segment = thread / cuda::kWarpLanes * Segments * cuda::kSegment;
#pragma unroll
  for (int s = 0; s < Segments; ++s) {
    if (divides) {
      cuda::with_parameters<Order>(smooth, first_segment, s, lane, v[s], [](float x, float factor) { return __fdiv_rn(x, factor); });
    } else {
      cuda::with_parameters<Order>(smooth, first_segment, s, lane, v[s], [](float x, float factor) { return __fmul_rn(x, factor); });
    }
  }
}

template <cuda::RowType Type, int Segments, cuda::RowMode Mode, bool Smoothed>
__global__ void __launch_bounds__(cuda::kWalkBounds<Segments, 1>.threads, cuda::ctas_per_sm(cuda::kWalkBounds<Segments, 1>))
    quantize_rows_kernel(QuantizeLaunch launch) {
  constexpr cuda::LaneOrder kOrder = cuda::LaneOrder::adjacent;
  using Ring = cuda::RowRing<Type, Segments, 1>;
  extern __shared__ float4 dynamic[];
  const int columns = launch.columns;
  cuda::wait_for_predecessor();
  cuda::let_successor_begin();
  const cuda::WalkShared shared = cuda::walk_shared<Segments, Ring::kBytes>(dynamic, Smoothed ? 1 : 0, launch.depth);
  cuda::RowReducer reducer(*shared.scratch);
  Ring ring(shared.slots, launch.depth, columns);
  float* words = shared.words;
  const auto rows = std::uint32_t(launch.rows);  // below 2^31
  const std::uint32_t step = cuda::row_step();
  std::uint32_t row = cuda::first_row();
  for (std::uint32_t ahead = row, end = row + launch.depth * step; ahead != end; ahead += step) {
    if (ahead < rows) ring.fetch(0, launch.x, ahead);
    ring.advance();
  }
  if constexpr (Smoothed) {
    stage_smoothing(launch.smooth, columns, cuda::vector_words(int(blockDim.x), Segments), shared.vectors);
    __syncthreads();
  }
  for (; row < rows; row += step) {
    const std::uint32_t ahead = row + launch.depth * step;
    float v[Segments][cuda::kLaneValues];
    ring.wait();
    ring.template read<kOrder>(0, v);
    __syncwarp();
    if (ahead < rows) ring.fetch(0, launch.x, ahead);
    ring.advance();

    if constexpr (Smoothed) smooth_row<kOrder>(v, shared.vectors, launch.divides);
    float unit = 1;
    if constexpr (Mode == cuda::RowMode::rotated_codes) {
      cuda::rotate_row<kOrder>(v, launch.out.rotation_group, words);
      unit = 1.0f / launch.out.rotation_unit;
    }
    std::uint32_t absmax = cuda::absmax_of(v, reducer);
    if constexpr (Mode == cuda::RowMode::rotated_codes) {
      if (absmax >= cuda::kInfinityBits) {
        // A fault in the row, or values so large that the rotation without its halves overflowed. Smaller by 2^-8 they do not.
        constexpr float kSmaller = 1.0f / 256;
        cuda::Raw8<Type> again[Segments][2];
        cuda::load_row<Type, kOrder>(again, launch.x, row, columns);
        cuda::unpack_row<Type>(again, v);
        if constexpr (Smoothed) smooth_row<kOrder>(v, shared.vectors, launch.divides);
#pragma unroll
        for (int s = 0; s < Segments; ++s) {
#pragma unroll
          for (int i = 0; i < cuda::kLaneValues; ++i) v[s][i] *= kSmaller;
        }
        cuda::rotate_row<kOrder>(v, launch.out.rotation_group, words);
        absmax = cuda::absmax_of(v, reducer);
        unit /= kSmaller;
      }
    }
    cuda::store_codes<Mode, kOrder, cuda::Rounding::twice>(v, absmax, unit, launch.out, row, columns, words);
  }
}

__global__ void __launch_bounds__(cuda::kGeneralThreads) quantize_rows_general_kernel(QuantizeLaunch launch) {
  extern __shared__ float4 exchange[];
  __shared__ cuda::ReduceScratch scratch;
  cuda::RowReducer reducer(scratch);
  const std::int64_t row = blockIdx.x;
  const auto value = [&](int k) {
    const float x = cuda::load_one(launch.x.data, launch.x.type, row * launch.x.stride + k);
    if (launch.smooth == nullptr) return x;
    return launch.divides ? __fdiv_rn(x, launch.smooth[k]) : __fmul_rn(x, launch.smooth[k]);
  };
  cuda::store_row_general(value, launch.out, row, launch.columns, reducer, reinterpret_cast<float*>(exchange));
}

}  // namespace octavo::device
