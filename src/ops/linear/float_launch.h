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
  const float* mod_gate = nullptr;   // [N]
  cuda::RowsIn residual{};           // null data: none
  std::int64_t w_columns = 0;        // w has so many and its rows repeat until k; 0: w has k
  const float* row_scale = nullptr;  // [M]: of x's rows; their sums are multiplied by it first
};

// Tensor cores: x and w of one 16-bit type, rows of 16-byte chunks; sm_80 and later, float16 from sm_75 on.
bool fits_float_mma(const FloatLinearLaunch& launch, int sm);
// Each enqueues on `stream` (a cudaStream_t) and throws DeviceError if the launch fails.
// `sm` 75 chooses Turing's body, which later GPUs up to sm_90 can run too.
void launch_float_mma(const FloatLinearLaunch& launch, int sm, void* stream);
// parts[m] = (a row of the high, one of the middle, one of the low parts of x[m]), each of launch.k bf16; every float32 is the sum of its three parts.
// With w repeated three times the tensor cores then sum float32 times bf16 with exact products.
void launch_split_bf16(const FloatLinearLaunch& launch, void* parts, void* stream);
// For f16 w: x[m] = row_scale[m] · (high + low), float16 beside each other in `to` [M, parts · K], parts 1 (no low) or 2; row_scale [M] is the power of two
// that brings the largest of a row into [2^14, 2^15), so that no row leaves the range of float16. Two parts hold 22 bits of a float32; one holds a bf16 whole
// if it is not 2^29 times below the row's largest.
void launch_split_f16(const FloatLinearLaunch& launch, int parts, void* to, float* row_scale, void* stream);
// y[m] *= row_scale[m], y float32: what the epilogue of our own product does, for one that has none.
void launch_scale_rows(const FloatLinearLaunch& launch, void* stream);
// Any types and alignment, float32 products without tensor cores.
void launch_float_plain(const FloatLinearLaunch& launch, void* stream);

}  // namespace octavo
