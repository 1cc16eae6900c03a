// What quantize_cuda.cpp hands to the kernels.
#pragma once

#include <cstdint>

#include "cuda/row/walk.h"

namespace octavo {

struct QuantizeLaunch {
  cuda::RowsIn x{};
  cuda::RowsOut out{};
  std::int64_t rows = 0;
  int columns = 0;
  int depth = 0;  // rows fetched ahead; launch_walk() fills it in
};

// Enqueues on `stream` (a cudaStream_t). Throws DeviceError if the launch fails.
void launch_quantize_rows(const QuantizeLaunch& launch, int device_index, void* stream);

}  // namespace octavo
