// What group_norm_cuda.cpp hands to the kernels.
#pragma once

#include <cstdint>

#include "cuda/row/row.h"

namespace octavo {

// Pixels are dealt out to this many CTAs whatever the GPU, so that sums have one order.
inline constexpr int kGroupNormChunks = 512;

struct GroupNormLaunch {
  const void* x = nullptr;  // [pixels, channels], dense
  void* y = nullptr;
  cuda::RowType x_type = cuda::RowType::f32, y_type = cuda::RowType::f32;
  const void* weight = nullptr;
  const void* bias = nullptr;
  cuda::RowType weight_type = cuda::RowType::f32, bias_type = cuda::RowType::f32;
  std::int64_t pixels = 0;
  int channels = 0;
  int groups = 0;
  float eps = 0;
  bool silu = false;
  double* partial = nullptr;    // [kGroupNormChunks, groups, 2] sums and sums of squares
  float* statistics = nullptr;  // [groups, 2] mean and 1 / deviation
};

inline std::int64_t group_norm_partial_bytes(int groups) { return std::int64_t(groups) * 2 * kGroupNormChunks * std::int64_t(sizeof(double)); }

// Kernels on `stream` (a cudaStream_t): x to `statistics`, and both to y. Throw DeviceError if a launch fails.
void launch_group_norm_statistics(const GroupNormLaunch& launch, void* stream);
void launch_group_norm_apply(const GroupNormLaunch& launch, void* stream);

}  // namespace octavo
