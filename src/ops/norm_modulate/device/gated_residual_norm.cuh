// residual[m,:] += tanh(mod_gate) · rms_norm(y[m,:]; post);   out[m,:] = rms_norm(residual[m,:]; next)     one pass over the row
//
// Like norm_rows.cuh: rows in registers, the next row's loads in flight, parameters in shared memory. tanh(mod_gate) · post weight
// is one vector, so the branch costs one product a value. The residual is stored as 16-byte halves, full sectors each; if the codes
// are rotated, the row changes its order through shared memory first.
// Traffic for bf16: 4 B read, 2 B (residual) and 1 B (codes) written a value.
// Shared memory: 12 K bytes of parameters, 2112 B a warp when rotating, 256 B reduction scratch.
#pragma once

#include "ops/norm_modulate/device/norm_math.cuh"

namespace octavo::device {

template <cuda::RowType Type, int Segments, cuda::RowMode Mode>
__global__ void __launch_bounds__(cuda::kMaxRowThreads, Segments == 1 && Mode != cuda::RowMode::rotated_codes ? 2 : 1)
    gated_residual_norm_kernel(GatedResidualLaunch launch) {
  constexpr cuda::LaneOrder kOrder = cuda::LaneOrder::halves;
  extern __shared__ float4 dynamic[];
  __shared__ cuda::ReduceScratch scratch;
  cuda::RowReducer reducer(scratch);
  const int columns = launch.columns;
  const int lane = int(threadIdx.x) % cuda::kWarpLanes;
  const int warp = int(threadIdx.x) / cuda::kWarpLanes;
  const int first_segment = warp * Segments * cuda::kSegment;
  const int parameter_words = (columns + 127) / 128 * 128;
  float* branch_gain = reinterpret_cast<float*>(dynamic);
  float* weight = branch_gain + parameter_words;
  float* factor = weight + parameter_words;
  float* words = factor + parameter_words + warp * cuda::kExchangeWords;

  const float inverse_columns = __fdiv_rn(1.0f, float(columns));
  const float unit = 1.0f / launch.out.rotation_unit;
  std::int64_t row = blockIdx.x;
  cuda::Raw8<Type> raw_residual[Segments][2];
  cuda::Raw8<Type> raw_y[Segments][2];
  cuda::load_row<Type, kOrder>(raw_y, launch.y, row, columns);
  cuda::load_row<Type, kOrder>(raw_residual, launch.residual, row, columns);
  stage_vector(launch.mod_gate, columns, 0.0f, branch_gain, [&](float gate, int k) { return tanhf(gate) * vector_value(launch.post_weight, k, 1.0f); });
  stage_vector(launch.next_weight, columns, 1.0f, weight, [](float value, int) { return value; });
  stage_vector(launch.next_mod_scale, columns, 0.0f, factor, [](float value, int) { return 1.0f + value; });
  __syncthreads();

  while (true) {
    float v[Segments][cuda::kLaneValues];
    cuda::unpack_row<Type>(raw_y, v);
    const std::int64_t next = row + gridDim.x;
    if (next < launch.rows) cuda::load_row<Type, kOrder>(raw_y, launch.y, next, columns);

    const float branch_inverse =
        inverse_deviation(sum_squares<false, kOrder, Segments>(v, 0.0f, first_segment, lane, columns, reducer), inverse_columns, launch.post_eps);
    char* stream_row = static_cast<char*>(launch.residual.data) + row * launch.residual.stride * cuda::bytes_of(Type);
#pragma unroll
    for (int s = 0; s < Segments; ++s) {
      const int segment = first_segment + cuda::kSegment * s;
      with_parameters<kOrder>(branch_gain, first_segment, s, lane, columns, v[s], [&](float y, float gain) { return (y * branch_inverse) * gain; });
      float residual[cuda::kLaneValues];
      cuda::unpack8<Type>(raw_residual[s][0], residual);
      cuda::unpack8<Type>(raw_residual[s][1], residual + 8);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 8 * half; i < 8 * half + 8; ++i) v[s][i] = residual[i] + v[s][i];
        const cuda::Raw8<Type> rounded = cuda::pack8<Type>(v[s] + 8 * half);
        const int k = segment + cuda::chunk_of<kOrder>(lane, half);
        if (k < columns) cuda::store_raw8<Type>(stream_row + std::int64_t(k) * cuda::bytes_of(Type), rounded);
        cuda::unpack8<Type>(rounded, v[s] + 8 * half);  // the second norm sees what was stored
      }
    }
    if (next < launch.rows) cuda::load_row<Type, kOrder>(raw_residual, launch.residual, next, columns);

    if (launch.has_out) {
      const float inverse =
          inverse_deviation(sum_squares<false, kOrder, Segments>(v, 0.0f, first_segment, lane, columns, reducer), inverse_columns, launch.next_eps) * unit;
#pragma unroll
      for (int s = 0; s < Segments; ++s) {
        with_parameters<kOrder>(weight, first_segment, s, lane, columns, v[s], [&](float x, float w) { return (x * inverse) * w; });
        with_parameters<kOrder>(factor, first_segment, s, lane, columns, v[s], [](float x, float f) { return x * f; });
      }
      cuda::store_row<Mode, kOrder>(v, launch.out, row, columns, reducer, words);
    }
    if (next >= launch.rows) return;
    row = next;
  }
}

__global__ void __launch_bounds__(cuda::kGeneralThreads) gated_residual_norm_general_kernel(GatedResidualLaunch launch) {
  extern __shared__ float4 dynamic[];
  __shared__ cuda::ReduceScratch scratch;
  cuda::RowReducer reducer(scratch);
  const std::int64_t row = blockIdx.x;
  const int columns = launch.columns;
  const float inverse_columns = __fdiv_rn(1.0f, float(columns));
  const auto y = [&](int k) { return cuda::load_one(launch.y.data, launch.y.type, row * launch.y.stride + k); };
  const auto residual = [&](int k) { return cuda::load_one(launch.residual.data, launch.residual.type, row * launch.residual.stride + k); };
  float squares = 0;
  for (int k = int(threadIdx.x); k < columns; k += int(blockDim.x)) squares = fmaf(y(k), y(k), squares);
  const float branch_inverse = inverse_deviation(reducer.sum(squares), inverse_columns, launch.post_eps);
  squares = 0;
  for (int k = int(threadIdx.x); k < columns; k += int(blockDim.x)) {
    const float gain = tanhf(vector_value(launch.mod_gate, k, 0.0f)) * vector_value(launch.post_weight, k, 1.0f);
    cuda::store_one(launch.residual.data, launch.residual.type, row * launch.residual.stride + k, residual(k) + (y(k) * branch_inverse) * gain);
    squares = fmaf(residual(k), residual(k), squares);
  }
  if (!launch.has_out) return;
  __syncthreads();  // with a rotation, other threads read what this one stored
  const float inverse = inverse_deviation(reducer.sum(squares), inverse_columns, launch.next_eps);
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
