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
  cuda::RowsIn residual{};  // null data: none
};

// Tensor cores: x and w of one 16-bit type, rows of 16-byte chunks; sm_80 and later.
bool fits_float_mma(const FloatLinearLaunch& launch, int sm);
// float32 x and bf16 w, K in eights, rows of both of 16-byte chunks; sm_80 and later.
bool fits_float_parts(const FloatLinearLaunch& launch, int sm);
// Each enqueues on `stream` (a cudaStream_t) and throws DeviceError if the launch fails.
void launch_float_mma(const FloatLinearLaunch& launch, void* stream);
// Float32 as the sum of three bf16 parts, so that the tensor cores sum exact products.
void launch_float_parts(const FloatLinearLaunch& launch, void* stream);
// Any types and alignment, float32 products without tensor cores.
void launch_float_plain(const FloatLinearLaunch& launch, void* stream);

}  // namespace octavo
