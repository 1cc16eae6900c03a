// y[m,k] = ((x[m,k] - mean) · rsqrt(mean (x - mean)² + eps)) · weight[k] · (1 + mod_scale[k])      mean = 0 for rms_norm
//
// A CTA walks over rows (row, row + CTAs, …) with one row in registers and the next one's loads already in flight.
// weight and 1 + mod_scale are read once per CTA and kept as float32 in shared memory, swizzled (cuda/row/row.h): reading
// them again for every row would double the bytes from L2.
// Shared memory: 8 K bytes of parameters, 2112 B a warp when rotating, 256 B reduction scratch.
#pragma once

#include "ops/norm_modulate/device/norm_math.cuh"

namespace octavo::device {

// CTAs that must fit an SM: as many as registers allow without spilling.
template <cuda::RowType Type, int Segments, bool Wide>
inline constexpr int kNormCtasPerSm = cuda::ctas_per_sm(cuda::at_least_one((Type == cuda::RowType::f32 ? 2 : 3) - (Segments - 1) - (Wide ? 1 : 0)));

template <cuda::RowType Type, int Segments, cuda::RowMode Mode, bool Centered>
__global__ void __launch_bounds__(cuda::kMaxRowThreads, kNormCtasPerSm<Type, Segments, Centered || Mode == cuda::RowMode::rotated_codes>)
    norm_rows_kernel(NormLaunch launch) {
  constexpr cuda::LaneOrder kOrder = Mode == cuda::RowMode::floats ? cuda::LaneOrder::halves : cuda::LaneOrder::adjacent;
  constexpr bool kPrefetch = Segments == 1 || Mode != cuda::RowMode::rotated_codes;  // two rotated segments and a prefetch would spill
  extern __shared__ float4 dynamic[];
  __shared__ cuda::ReduceScratch scratch;
  cuda::RowReducer reducer(scratch);
  const int columns = launch.columns;
  const int lane = int(threadIdx.x) % cuda::kWarpLanes;
  const int warp = int(threadIdx.x) / cuda::kWarpLanes;
  const int first_segment = warp * Segments * cuda::kSegment;
  const int parameter_words = (columns + 127) / 128 * 128;  // the swizzle moves words within 128
  float* weight = reinterpret_cast<float*>(dynamic);
  float* factor = weight + parameter_words;
  float* words = factor + parameter_words + warp * cuda::kExchangeWords;

  const float inverse_columns = __fdiv_rn(1.0f, float(columns));
  const float unit = 1.0f / launch.out.rotation_unit;  // a power of two: the rotation's halves, all at once
  std::int64_t row = blockIdx.x;
  cuda::Raw8<Type> raw[Segments][2];
  cuda::load_row<Type, kOrder>(raw, launch.x, row, columns);
  stage_vector(launch.weight, columns, 1.0f, weight, [](float value, int) { return value; });
  stage_vector(launch.mod_scale, columns, 0.0f, factor, [](float value, int) { return 1.0f + value; });
  __syncthreads();

  while (true) {
    float v[Segments][cuda::kLaneValues];
    cuda::unpack_row<Type>(raw, v);
    const std::int64_t next = row + gridDim.x;
    if (kPrefetch && next < launch.rows) cuda::load_row<Type, kOrder>(raw, launch.x, next, columns);

    float center = 0;
    if constexpr (Centered) {
      float sum = 0;
#pragma unroll
      for (int s = 0; s < Segments; ++s) {
#pragma unroll
        for (int i = 0; i < cuda::kLaneValues; ++i) sum += v[s][i];
      }
      center = reducer.sum(sum) * inverse_columns;
    }
    const float inverse =
        inverse_deviation(sum_squares<Centered, kOrder, Segments>(v, center, first_segment, lane, columns, reducer), inverse_columns, launch.eps) * unit;
#pragma unroll
    for (int s = 0; s < Segments; ++s) {
      with_parameters<kOrder>(weight, first_segment, s, lane, columns, v[s], [&](float x, float w) { return ((Centered ? x - center : x) * inverse) * w; });
      with_parameters<kOrder>(factor, first_segment, s, lane, columns, v[s], [](float x, float f) { return x * f; });
    }
    cuda::store_row<Mode, kOrder>(v, launch.out, row, columns, reducer, words);
    if (next >= launch.rows) return;
    row = next;
    if (!kPrefetch) cuda::load_row<Type, kOrder>(raw, launch.x, row, columns);
  }
}

__global__ void __launch_bounds__(cuda::kGeneralThreads) norm_rows_general_kernel(NormLaunch launch) {
  extern __shared__ float4 dynamic[];
  __shared__ cuda::ReduceScratch scratch;
  cuda::RowReducer reducer(scratch);
  const std::int64_t row = blockIdx.x;
  const int columns = launch.columns;
  const float inverse_columns = __fdiv_rn(1.0f, float(columns));
  const auto x = [&](int k) { return cuda::load_one(launch.x.data, launch.x.type, row * launch.x.stride + k); };
  float center = 0;
  if (launch.center) {
    float sum = 0;
    for (int k = int(threadIdx.x); k < columns; k += int(blockDim.x)) sum += x(k);
    center = reducer.sum(sum) * inverse_columns;
  }
  float squares = 0;
  for (int k = int(threadIdx.x); k < columns; k += int(blockDim.x)) squares = fmaf(x(k) - center, x(k) - center, squares);
  const float inverse = inverse_deviation(reducer.sum(squares), inverse_columns, launch.eps);
  const auto value = [&](int k) {
    return ((x(k) - center) * inverse) * vector_value(launch.weight, k, 1.0f) * (1.0f + vector_value(launch.mod_scale, k, 0.0f));
  };
  cuda::store_row_general(value, launch.out, row, columns, reducer, reinterpret_cast<float*>(dynamic));
}

}  // namespace octavo::device
