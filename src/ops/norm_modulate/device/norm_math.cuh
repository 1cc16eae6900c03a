// What the norm kernels share: parameters in shared memory, the sum of squares, its inverse root.
#pragma once

#include "cuda/row/general.cuh"
#include "cuda/row/parameters.cuh"
#include "cuda/row/ring.cuh"
#include "ops/norm_modulate/norm_launch.h"

namespace octavo::device {

__device__ __forceinline__ float vector_value(const VectorIn& vector, int k, float neutral) {
  return vector.data == nullptr ? neutral : cuda::load_one(vector.data, vector.type, k);
}

// Four neighbouring parameters as they came. Both halves are loaded whatever the type, so that no branch keeps loads from being under way together;
// for 16-bit types they are the same eight bytes.
struct RawQuad {
  uint2 low{};
  uint2 high{};
};

// k a multiple of 4. A null vector reads `any` 16 bytes of global memory instead.
__device__ __forceinline__ RawQuad load_quad(const VectorIn& vector, int k, const void* any) {
  const bool present = vector.data != nullptr;
  const char* from = static_cast<const char*>(present ? vector.data : any) + (present ? std::int64_t(k) * cuda::bytes_of(vector.type) : 0);
  return {__ldg(reinterpret_cast<const uint2*>(from)), __ldg(reinterpret_cast<const uint2*>(from + (present && vector.type == cuda::RowType::f32 ? 8 : 0)))};
}

__device__ __forceinline__ void unpack_quad(const RawQuad& raw, const VectorIn& vector, float neutral, float (&v)[4]) {
  if (vector.data == nullptr) {
    v[0] = v[1] = v[2] = v[3] = neutral;
  } else if (vector.type == cuda::RowType::f32) {
    v[0] = __uint_as_float(raw.low.x);
    v[1] = __uint_as_float(raw.low.y);
    v[2] = __uint_as_float(raw.high.x);
    v[3] = __uint_as_float(raw.high.y);
  } else if (vector.type == cuda::RowType::bf16) {
    cuda::unpack_bf16x2(raw.low.x, v[0], v[1]);
    cuda::unpack_bf16x2(raw.low.y, v[2], v[3]);
  } else {
    const float2 a = __half22float2(reinterpret_cast<const __half2&>(raw.low.x));
    const float2 b = __half22float2(reinterpret_cast<const __half2&>(raw.low.y));
    v[0] = a.x;
    v[1] = a.y;
    v[2] = b.x;
    v[3] = b.y;
  }
}

// to[k] = use(a[k], b[k]) as float32 in shared memory, swizzled, zeros from columns to words; by all threads of the CTA. Both vectors 8-byte aligned, columns a
// multiple of 16.
template <class Use>
__device__ __forceinline__ void stage_product(const VectorIn& a, float neutral_a, const VectorIn& b, float neutral_b, const void* any, int columns, int words,
                                              float* to, const Use& use) {
  const int threads = int(blockDim.x * blockDim.y);
#pragma unroll 2
  for (int k = 4 * int(threadIdx.y * blockDim.x + threadIdx.x); k < columns; k += 4 * threads) {
    const RawQuad raw_a = load_quad(a, k, any);
    const RawQuad raw_b = load_quad(b, k, any);
    float from_a[4];
    float from_b[4];
    unpack_quad(raw_a, a, neutral_a, from_a);
    unpack_quad(raw_b, b, neutral_b, from_b);
    *reinterpret_cast<float4*>(to + cuda::swizzle_word(k)) =
        make_float4(use(from_a[0], from_b[0]), use(from_a[1], from_b[1]), use(from_a[2], from_b[2]), use(from_a[3], from_b[3]));
  }
  for (int k = columns + 4 * int(threadIdx.y * blockDim.x + threadIdx.x); k < words; k += 4 * threads)
    *reinterpret_cast<float4*>(to + cuda::swizzle_word(k)) = float4{};
}

// weight · (1 + mod_scale): what a normalised value is multiplied by, once instead of twice. The CPU body rounds after each factor; the difference is
// within the ulps that numerics.md section 3 grants a fused op.
__device__ __forceinline__ void stage_gain(const VectorIn& weight, const VectorIn& mod_scale, const void* any, int columns, int words, float* to) {
  stage_product(weight, 1.0f, mod_scale, 0.0f, any, columns, words, to, [](float w, float scale) { return w * (1.0f + scale); });
}

// This lane's sum of v²; beyond the last column it holds zeros.
template <int Segments>
__device__ __forceinline__ float lane_squares(const float (&v)[Segments][cuda::kLaneValues]) {
  float sum = 0;
#pragma unroll
  for (int s = 0; s < Segments; ++s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float part = 0;
#pragma unroll
      for (int i = 8 * half; i < 8 * half + 8; ++i) part = fmaf(v[s][i], v[s][i], part);
      sum += part;
    }
  }
  return sum;
}

// 1 / sqrt(mean + eps): the hardware's reciprocal root (2 ulp) and one Newton step, 1 ulp. A mean of infinity gives 0 and NaN stays
// NaN, as the quotient would.
__device__ __forceinline__ float inverse_deviation(float sum_of_squares, float inverse_columns, float eps) {
  const float mean = fmaf(sum_of_squares, inverse_columns, eps);
  const float root = rsqrtf(mean);
  const float error = fmaf(-mean * root, root, 1.0f);
  return mean < 1e37f && mean > 1e-37f ? fmaf(root * 0.5f, error, root) : root;
}

// out = v · (1/sqrt(mean v² + eps)) · gain.
// Codes: the root is one positive factor of the whole row, so it cancels in them and multiplies the scale alone. Squares and the largest of v · gain are
// reduced together, for one barrier instead of two and a product less a value. Against the CPU body the factors round in another order: within the ulps
// that numerics.md section 3 grants a fused op.
template <cuda::RowMode Mode, cuda::LaneOrder Order, int Segments>
__device__ __forceinline__ void normalise_and_store(float (&v)[Segments][cuda::kLaneValues], const float* gain, float inverse_columns, float eps,
                                                    const cuda::RowsOut& out, std::int64_t row, int columns, cuda::RowReducer& reducer, float* words) {
  const int lane = int(threadIdx.x) % cuda::kWarpLanes;
  const int first_segment = int(threadIdx.x) / cuda::kWarpLanes * Segments * cuda::kSegment;
  float squares = lane_squares(v);
  if constexpr (Mode == cuda::RowMode::floats) {
    const float inverse = inverse_deviation(reducer.sum(squares), inverse_columns, eps);
#pragma unroll
    for (int s = 0; s < Segments; ++s) cuda::with_parameters<Order>(gain, first_segment, s, lane, v[s], [&](float x, float g) { return (x * inverse) * g; });
    cuda::store_row<Mode, Order>(v, out, row, columns, reducer, words);
  } else {
#pragma unroll
    for (int s = 0; s < Segments; ++s) cuda::with_parameters<Order>(gain, first_segment, s, lane, v[s], [](float x, float g) { return x * g; });
    if constexpr (Mode == cuda::RowMode::rotated_codes) cuda::rotate_row<Order>(v, out.rotation_group, words);
    std::uint32_t absmax = cuda::lane_absmax(v);
    reducer.sum_and_max(squares, absmax);
    const float halves = __uint_as_float(0x7f000000u - __float_as_uint(out.rotation_unit));  // all the rotation's at once: 1 / 2^n
    const float unit = inverse_deviation(squares, inverse_columns, eps) * halves;
    cuda::store_codes<Mode, Order, cuda::Rounding::once>(v, absmax, unit, out, row, columns, words);
  }
}

}  // namespace octavo::device
