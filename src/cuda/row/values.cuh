// Row values between memory and registers: eight neighbours as 16-byte words, or one at a time.
#pragma once

#include "cuda/convert.cuh"
#include "cuda/row/row.h"

namespace octavo::cuda {

// Eight stored values as they came; converting later keeps a prefetch in 4 registers instead of 8.
template <RowType Type>
struct Raw8 {
  uint4 words{};
};
template <>
struct Raw8<RowType::f32> {
  uint4 words{};
  uint4 more{};
};

template <RowType Type>
__device__ __forceinline__ Raw8<Type> load_raw8(const void* from) {
  Raw8<Type> raw;
  raw.words = static_cast<const uint4*>(from)[0];
  if constexpr (Type == RowType::f32) raw.more = static_cast<const uint4*>(from)[1];
  return raw;
}

__device__ __forceinline__ void unpack_bf16x2(std::uint32_t pair, float& low, float& high) {
  low = __uint_as_float(pair << 16);
  high = __uint_as_float(pair & 0xffff0000u);
}

template <RowType Type>
__device__ __forceinline__ void unpack8(const Raw8<Type>& raw, float* v) {
  if constexpr (Type == RowType::f32) {
    const std::uint32_t words[8] = {raw.words.x, raw.words.y, raw.words.z, raw.words.w, raw.more.x, raw.more.y, raw.more.z, raw.more.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = __uint_as_float(words[i]);
  } else {
    const std::uint32_t words[4] = {raw.words.x, raw.words.y, raw.words.z, raw.words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (Type == RowType::bf16) {
        unpack_bf16x2(words[i], v[2 * i], v[2 * i + 1]);
      } else {
        const float2 pair = __half22float2(reinterpret_cast<const __half2&>(words[i]));
        v[2 * i] = pair.x;
        v[2 * i + 1] = pair.y;
      }
    }
  }
}

template <RowType Type>
__device__ __forceinline__ Raw8<Type> pack8(const float* v) {
  Raw8<Type> raw;
  if constexpr (Type == RowType::f32) {
    raw.words = make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3]));
    raw.more = make_uint4(__float_as_uint(v[4]), __float_as_uint(v[5]), __float_as_uint(v[6]), __float_as_uint(v[7]));
  } else if constexpr (Type == RowType::bf16) {
    raw.words = make_uint4(pack_bf16x2(v[0], v[1]), pack_bf16x2(v[2], v[3]), pack_bf16x2(v[4], v[5]), pack_bf16x2(v[6], v[7]));
  } else {
    raw.words = make_uint4(pack_f16x2(v[0], v[1]), pack_f16x2(v[2], v[3]), pack_f16x2(v[4], v[5]), pack_f16x2(v[6], v[7]));
  }
  return raw;
}

template <RowType Type>
__device__ __forceinline__ void store_raw8(void* to, const Raw8<Type>& raw) {
  static_cast<uint4*>(to)[0] = raw.words;
  if constexpr (Type == RowType::f32) static_cast<uint4*>(to)[1] = raw.more;
}

// One value of any type; for the general kernels and for parameters.
__device__ __forceinline__ float load_one(const void* from, RowType type, std::int64_t index) {
  if (type == RowType::f32) return static_cast<const float*>(from)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(from)[index];
  return type == RowType::bf16 ? float_of_bf16(bits) : float_of_f16(bits);
}

__device__ __forceinline__ void store_one(void* to, RowType type, std::int64_t index, float value) {
  if (type == RowType::f32) {
    static_cast<float*>(to)[index] = value;
  } else {
    static_cast<std::uint16_t*>(to)[index] = type == RowType::bf16 ? bits_bf16(value) : bits_f16(value);
  }
}

// The value as it will be read back once stored.
template <RowType Type>
__device__ __forceinline__ float rounded_to(float value) {
  if constexpr (Type == RowType::f32) return value;
  if constexpr (Type == RowType::bf16) return float_of_bf16(bits_bf16(value));
  return float_of_f16(bits_f16(value));
}

__device__ __forceinline__ void* at(const RowsIn& rows, std::int64_t row, std::int64_t column) {
  return static_cast<char*>(rows.data) + (row * rows.stride + column) * bytes_of(rows.type);
}

}  // namespace octavo::cuda
