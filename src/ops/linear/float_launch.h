// What linear_float_cuda.cpp hands to the float kernels.
#pragma once

#include <cstdint>

#include "cuda/row/row.h"

namespace octavo {

struct FloatLinearLaunch {
  cuda::RowsIn x{}, w{}, y{};
  std::int64_t m = 0, n = 0, k = 0;
  const void* bias = nullptr;  // [N]
  cuda::RowType bias_type = cuda::RowType::f32;
  bool silu = false;
  const float* mod_gate = nullptr;  // [N]
  float factor = 1;
  cuda::RowsIn residual{};     // null data: none
  std::int64_t w_columns = 0;  // w has so many and its rows repeat until k; 0: w has k
};

// Tensor cores: x and w of one 16-bit type, rows of 16-byte chunks; sm_80 and later.
bool fits_float_mma(const FloatLinearLaunch& launch, int sm);
// Each enqueues on `stream` (a cudaStream_t) and throws DeviceError if the launch fails.
void launch_float_mma(const FloatLinearLaunch& launch, void* stream);
// parts[m] = (a row of the high, one of the middle, one of the low parts of x[m]), each of launch.k bf16; every float32 is the sum of its three parts.
// With w repeated three times the tensor cores then sum float32 times bf16 with exact products.
void launch_split_bf16(const FloatLinearLaunch& launch, void* parts, void* stream);
// Any types and alignment, float32 products without tensor cores.
void launch_float_plain(const FloatLinearLaunch& launch, void* stream);

}  // namespace octavo
