// float32 to the 16-bit floats, rounded to nearest even; two at a time, the first in the lower half.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace octavo::cuda {

__device__ __forceinline__ std::uint32_t pack_bf16x2(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(pair);
}

__device__ __forceinline__ std::uint32_t pack_f16x2(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(pair);
}

__device__ __forceinline__ std::uint16_t bits_bf16(float value) {
  const __nv_bfloat16 rounded = __float2bfloat16_rn(value);
  return reinterpret_cast<const std::uint16_t&>(rounded);
}

__device__ __forceinline__ std::uint16_t bits_f16(float value) {
  const __half rounded = __float2half_rn(value);
  return reinterpret_cast<const std::uint16_t&>(rounded);
}

__device__ __forceinline__ float float_of_bf16(std::uint16_t bits) { return __uint_as_float(std::uint32_t(bits) << 16); }

__device__ __forceinline__ float float_of_f16(std::uint16_t bits) { return __half2float(__ushort_as_half(bits)); }

}  // namespace octavo::cuda
