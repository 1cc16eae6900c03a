// What rope_cuda.cpp hands to the kernels.
#pragma once

#include <cstdint>

#include "cuda/row/row.h"

namespace octavo {

struct HeadNormRopeLaunch {
  cuda::RowsIn x{};  // updated in place
  const void* weight = nullptr;
  cuda::RowType weight_type = cuda::RowType::f32;
  const float* cos = nullptr;  // [M, D/2]
  const float* sin = nullptr;
  std::int64_t table_stride = 0;  // elements between their rows
  float eps = 0;
  std::int64_t rows = 0;
  int heads = 0;
  int head_dim = 0;
};

// Enqueues on `stream` (a cudaStream_t) and throws DeviceError if the launch fails.
void launch_head_norm_rope(const HeadNormRopeLaunch& launch, void* stream);

}  // namespace octavo
