// What conv2d_cuda.cpp hands to the kernels.
#pragma once

#include <cstdint>

#include "cuda/row/row.h"

namespace octavo {

struct Conv2dLaunch {
  const void* x = nullptr;  // [height, width, channels]
  const void* w = nullptr;  // [out_channels, kernel_h, kernel_w, channels]
  const void* bias = nullptr;
  const void* residual = nullptr;  // null: none
  void* y = nullptr;               // [out_height, out_width, out_channels]
  cuda::RowType x_type = cuda::RowType::f32, w_type = cuda::RowType::f32, bias_type = cuda::RowType::f32, residual_type = cuda::RowType::f32,
                y_type = cuda::RowType::f32;
  int height = 0, width = 0, channels = 0;
  int out_height = 0, out_width = 0, out_channels = 0;
  int kernel_h = 0, kernel_w = 0;
  int stride = 1, pad_top = 0, pad_left = 0;
  int enlarge_bits = 0;            // 1: every pixel of x stands for 2 × 2
  const float* x_scale = nullptr;  // one number on the device by which x is too large; sums are multiplied by it first
};

// Tensor cores: x and w of one 16-bit type, channels a multiple of 8, aligned; sm_80 and later, float16 from sm_75 on.
bool fits_conv2d_mma(const Conv2dLaunch& launch, int sm);
// Each enqueues on `stream` (a cudaStream_t) and throws DeviceError if the launch fails.
// `sm` 75 chooses Turing's body, which later GPUs up to sm_90 can run too.
void launch_conv2d_mma(const Conv2dLaunch& launch, int sm, void* stream);
// to[i] = float16(x[i] / x_scale), x float32 or bf16, x_scale the power of two that brings the largest number of the map into [2^14, 2^15): no map leaves the
// range of float16. `words`: two floats of scratch; the first becomes x_scale.
void launch_conv2d_narrow(const Conv2dLaunch& launch, void* to, float* words, void* stream);
void launch_conv2d_plain(const Conv2dLaunch& launch, void* stream);

}  // namespace octavo
