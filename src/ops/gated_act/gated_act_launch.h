// What gated_act_cuda.cpp hands to the kernels.
#pragma once

#include <cstdint>

#include "cuda/row/walk.h"

namespace octavo {

struct SiluMulLaunch {
  cuda::RowsIn act_gate{};
  cuda::RowsIn up{};
  cuda::RowsOut out{};
  std::int64_t rows = 0;
  int columns = 0;
  int depth = 0;  // rows fetched ahead; launch_walk() fills it in
};

struct SiluLaunch {
  cuda::RowsIn x{};  // float32, updated in place
  std::int64_t rows = 0;
  int columns = 0;
};

// Each enqueues on `stream` (a cudaStream_t) and throws DeviceError if the launch fails.
void launch_silu_mul(const SiluMulLaunch& launch, int device_index, void* stream);
void launch_silu(const SiluLaunch& launch, void* stream);

}  // namespace octavo
