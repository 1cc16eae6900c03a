// residual[m,:] += tanh(mod_gate) · rms_norm(y[m,:]; post);   out[m,:] = rms_norm(residual[m,:]; next)     one pass over the row
//
// Like norm_rows.cuh, with two rows to fetch. tanh(mod_gate) · post weight is one vector, next weight · (1 + next mod_scale) the other. The residual stays
// in its slot until the branch is normalised, and is stored as 16-byte halves, full sectors each; if the codes are rotated, the row changes its order
// through shared memory first.
// Traffic for bf16: 4 B read, 2 B (residual) and 1 B (codes) written a value.
#pragma once

#include "cuda/overlap.cuh"
#include "ops/norm_modulate/device/norm_math.cuh"

namespace octavo::device {

template <cuda::RowType Type, int Segments, cuda::RowMode Mode>
__global__ void __launch_bounds__(cuda::kWalkBounds<Segments, cuda::kMaxTeams>.threads, cuda::ctas_per_sm(cuda::kWalkBounds<Segments, cuda::kMaxTeams>))
    gated_residual_norm_kernel(GatedResidualLaunch launch) {
  constexpr cuda::LaneOrder kOrder = cuda::LaneOrder::halves;
  constexpr int kBranch = 0;  // operands of the ring
  constexpr int kResidual = 1;
  using Ring = cuda::RowRing<Type, Segments, 2>;
  extern __shared__ float4 dynamic[];
  const int columns = launch.columns;
  cuda::wait_for_predecessor();
  cuda::let_successor_begin();
  const cuda::WalkShared shared = cuda::walk_shared<Segments, Ring::kBytes>(dynamic, 2, launch.depth);
  cuda::RowReducer reducer(*shared.scratch, true);
  Ring ring(shared.slots, launch.depth, columns);
  float* branch_gain = shared.vectors;
  const int words = cuda::vector_words(int(blockDim.x), Segments);
  float* gain = branch_gain + words;
  const int lane = int(threadIdx.x) % cuda::kWarpLanes;
  const int first_segment = int(threadIdx.x) / cuda::kWarpLanes * Segments * cuda::kSegment;
  const auto rows = std::uint32_t(launch.rows);  // below 2^31
  const std::uint32_t step = cuda::row_step();
  std::uint32_t row = cuda::first_row();
  for (std::uint32_t ahead = row, end = row + launch.depth * step; ahead != end; ahead += step) {
    if (ahead < rows) {
      ring.fetch(kBranch, launch.y, ahead);
      ring.fetch(kResidual, launch.residual, ahead);
    }
    ring.advance();
  }
  stage_product(launch.mod_gate, 0.0f, launch.post_weight, 1.0f, launch.y.data, columns, words, branch_gain,
                [](float gate, float w) { return tanhf(gate) * w; });
  stage_gain(launch.next_weight, launch.next_mod_scale, launch.y.data, columns, words, gain);
  __syncthreads();

  for (; row < rows; row += step) {
    const std::uint32_t ahead = row + launch.depth * step;
    float v[Segments][cuda::kLaneValues];
    ring.wait();
    ring.template read<kOrder>(kBranch, v);
    __syncwarp();
    if (ahead < rows) ring.fetch(kBranch, launch.y, ahead);

    const float branch_inverse = inverse_deviation(reducer.sum(lane_squares(v)), launch.inverse_columns, launch.post_eps);
    char* stream_row = static_cast<char*>(launch.residual.data) + row * launch.residual.stride * cuda::bytes_of(Type);
#pragma unroll
    for (int s = 0; s < Segments; ++s) {
      const int segment = first_segment + cuda::kSegment * s;
      cuda::with_parameters<kOrder>(branch_gain, first_segment, s, lane, v[s], [&](float y, float g) { return (y * branch_inverse) * g; });
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* to = v[s] + 8 * half;
        float residual[8];
        ring.template read8<kOrder>(kResidual, s, half, residual);
#pragma unroll
        for (int i = 0; i < 8; ++i) to[i] = residual[i] + to[i];
        const cuda::Raw8<Type> rounded = cuda::pack8<Type>(to);
        const int k = segment + cuda::chunk_of<kOrder>(lane, half);
        if (k < columns) cuda::store_raw8<Type>(stream_row + std::int64_t(k) * cuda::bytes_of(Type), rounded);
        cuda::unpack8<Type>(rounded, to);  // the second norm sees what was stored
      }
    }
    __syncwarp();
    if (ahead < rows) ring.fetch(kResidual, launch.residual, ahead);
    ring.advance();

    if (launch.has_out) normalise_and_store<Mode, kOrder>(v, gain, launch.inverse_columns, launch.next_eps, launch.out, row, columns, reducer, shared.words);
  }
}

__global__ void __launch_bounds__(cuda::kGeneralThreads) gated_residual_norm_general_kernel(GatedResidualLaunch launch) {
  extern __shared__ float4 dynamic[];
  __shared__ cuda::ReduceScratch scratch;
  cuda::RowReducer reducer(scratch);
  const std::int64_t row = blockIdx.x;
  const int columns = launch.columns;
  const auto y = [&](int k) { return cuda::load_one(launch.y.data, launch.y.type, row * launch.y.stride + k); };
  const auto residual = [&](int k) { return cuda::load_one(launch.residual.data, launch.residual.type, row * launch.residual.stride + k); };
  float squares = 0;
  for (int k = int(threadIdx.x); k < columns; k += int(blockDim.x)) squares = fmaf(y(k), y(k), squares);
  const float branch_inverse = inverse_deviation(reducer.sum(squares), launch.inverse_columns, launch.post_eps);
  squares = 0;
  for (int k = int(threadIdx.x); k < columns; k += int(blockDim.x)) {
    const float gain = tanhf(vector_value(launch.mod_gate, k, 0.0f)) * vector_value(launch.post_weight, k, 1.0f);
    cuda::store_one(launch.residual.data, launch.residual.type, row * launch.residual.stride + k, residual(k) + (y(k) * branch_inverse) * gain);
    squares = fmaf(residual(k), residual(k), squares);
  }
  if (!launch.has_out) return;
  __syncthreads();  // with a rotation, other threads read what this one stored
  const float inverse = inverse_deviation(reducer.sum(squares), launch.inverse_columns, launch.next_eps);
  const auto value = [&](int k) {
    return ((residual(k) * inverse) * vector_value(launch.next_weight, k, 1.0f)) * (1.0f + vector_value(launch.next_mod_scale, k, 0.0f));
  };
  cuda::store_row_general(value, launch.out, row, columns, reducer, reinterpret_cast<float*>(dynamic));
}

// x[m,:] += y[m,:], eight values a thread where both are aligned, else one.
template <cuda::RowType Type>
__global__ void __launch_bounds__(256) add_rows_kernel(AddRowsLaunch launch) {
  const int chunks = launch.columns / 8;
  const std::int64_t count = launch.rows * chunks;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += std::int64_t(gridDim.x) * blockDim.x) {
    void* to = cuda::at(launch.x, i / chunks, i % chunks * 8);
    float x[8];
    float y[8];
    cuda::unpack8<Type>(cuda::load_raw8<Type>(to), x);
    cuda::unpack8<Type>(cuda::load_raw8<Type>(cuda::at(launch.y, i / chunks, i % chunks * 8)), y);
#pragma unroll
    for (int k = 0; k < 8; ++k) x[k] += y[k];
    cuda::store_raw8<Type>(to, cuda::pack8<Type>(x));
  }
}

__global__ void __launch_bounds__(256) add_rows_general_kernel(AddRowsLaunch launch) {
  const std::int64_t count = launch.rows * launch.columns;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += std::int64_t(gridDim.x) * blockDim.x) {
    const std::int64_t row = i / launch.columns;
    const std::int64_t k = i % launch.columns;
    const float sum =
        cuda::load_one(launch.x.data, launch.x.type, row * launch.x.stride + k) + cuda::load_one(launch.y.data, launch.y.type, row * launch.y.stride + k);
    cuda::store_one(launch.x.data, launch.x.type, row * launch.x.stride + k, sum);
  }
}

}  // namespace octavo::device
