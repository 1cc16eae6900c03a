// int32 sums to bf16 in a kernel of its own: what a library product needs after it, and the fused kernels do not. For comparison only.
#pragma once

#include <cstdint>

namespace octavo {

// y[m,n] = bf16( (float(acc[m,n]) · x_scale[m]) · w_scale[n] ), dense rows. Enqueues on `stream`; throws DeviceError if the launch fails.
void launch_dequantize(const std::int32_t* acc, const float* x_scale, const float* w_scale, void* y_bf16, std::int64_t m, std::int64_t n, void* stream);

}  // namespace octavo
