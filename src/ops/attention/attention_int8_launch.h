// What attention_int8_cuda.cpp hands to the kernels.
#pragma once

#include <cstdint>

#include "cuda/row/row.h"

namespace octavo {

inline constexpr int kMeanRun = 64;  // keys of one partial sum of the mean

// Bits of the power of two that brings the number with `absmax_bits` into [256, 512): at most 2^100; 1 for zero, NaN and infinity.
OCTAVO_HOST_DEVICE std::uint32_t value_unit_bits(std::uint32_t absmax_bits) {
  const int exponent = int(absmax_bits >> 23);  // 127 + log2, rounded down
  const int shift = absmax_bits == 0 || exponent >= 255 ? 0 : 127 + 8 - exponent;
  return std::uint32_t((shift < 100 ? shift : 100) + 127) << 23;
}

struct AttentionCodesLaunch {
  cuda::RowsIn q{}, k{}, v{};
  std::int8_t* q_codes = nullptr;        // [queries, heads · D]
  std::int8_t* k_codes = nullptr;        // [keys, kv_heads · D]
  float* q_scale = nullptr;              // [heads, queries]
  float* k_scale = nullptr;              // [kv_heads, keys]
  std::uint16_t* values = nullptr;       // f16 [keys, kv_heads · D]
  float* v_unit = nullptr;               // [kv_heads]
  float* run_sums = nullptr;             // [runs of keys, kv_heads · D]
  std::uint32_t* run_largest = nullptr;  // [runs of keys, kv_heads · D / 64]: bits of the largest |v| of 64 columns
  float* mean = nullptr;                 // [kv_heads · D]
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
};

struct AttentionInt8Launch {
  const std::int8_t* q = nullptr;
  const std::int8_t* k = nullptr;
  const float* q_scale = nullptr;
  const float* k_scale = nullptr;
  const std::uint16_t* v = nullptr;
  const float* v_unit = nullptr;
  cuda::RowsIn y{};
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  float softmax_scale = 0;
};

constexpr bool has_attention_int8_size(int head_dim) { return head_dim == 64 || head_dim == 128 || head_dim == 256; }

// Each enqueues on `stream` (a cudaStream_t) and throws DeviceError if a launch fails.
void launch_attention_codes(const AttentionCodesLaunch& launch, void* stream);
void launch_attention_int8(const AttentionInt8Launch& launch, void* stream);

}  // namespace octavo
