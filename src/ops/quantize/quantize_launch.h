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
  const float* smooth = nullptr;  // [columns], or null
  bool divides = false;           // by smooth; else multiplied
  int depth = 0;                  // rows fetched ahead; launch_walk() fills it in
};

struct DequantizeLaunch {
  const std::int8_t* q = nullptr;
  std::int64_t q_stride = 0;
  const float* scale = nullptr;
  cuda::RowsIn y{};  // written
  std::int64_t rows = 0, columns = 0;
};

// Each enqueues on `stream` (a cudaStream_t). Throws DeviceError if the launch fails.
void launch_quantize_rows(const QuantizeLaunch& launch, int device_index, void* stream);
void launch_dequantize_rows(const DequantizeLaunch& launch, void* stream);

}  // namespace octavo
