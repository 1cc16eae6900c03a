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
  cuda::RowsIn residual{};           // null data: none
  const float* row_scale = nullptr;  // [M]: of x's rows; their sums are multiplied by it first
};

// Tensor cores: x and w of one 16-bit type, rows of 16-byte chunks; sm_80 and later, float16 from sm_75 on.
bool fits_float_mma(const FloatLinearLaunch& launch, int sm);
// float32 x and bf16 w, K in eights, rows of both of 16-byte chunks; sm_80 and later.
bool fits_float_parts(const FloatLinearLaunch& launch, int sm);
// Each enqueues on `stream` (a cudaStream_t) and throws DeviceError if the launch fails.
// `sm` 75 chooses Turing's body, which later GPUs up to sm_90 can run too.
void launch_float_mma(const FloatLinearLaunch& launch, int sm, void* stream);
// Float32 as the sum of three bf16 parts, so that the tensor cores sum exact products.
void launch_float_parts(const FloatLinearLaunch& launch, void* stream);
// to[m] = float16(x[m] / row_scale[m]), x float32 or bf16, `to` dense [M, K], row_scale [M] the power of two that brings the largest of a row into [2^14,
// 2^15): no row leaves the range of float16, and a bf16 is kept whole if it is not 2^29 times below the row's largest.
void launch_narrow_rows(const FloatLinearLaunch& launch, void* to, float* row_scale, void* stream);
// y[m] *= row_scale[m], y float32: what the epilogue of our own product does, for one that has none.
void launch_scale_rows(const FloatLinearLaunch& launch, void* stream);
// Any types and alignment, float32 products without tensor cores.
void launch_float_plain(const FloatLinearLaunch& launch, void* stream);

}  // namespace octavo
