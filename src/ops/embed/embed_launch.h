// What embed_cuda.cpp hands to the kernel.
#pragma once

#include <cstdint>

#include "cuda/row/row.h"

namespace octavo {

struct EmbedLaunch {
  cuda::RowsIn table{};
  cuda::RowsIn y{};
  const std::int32_t* ids = nullptr;  // on the GPU
  std::int64_t rows = 0;
  int columns = 0;
};

// Enqueues on `stream` (a cudaStream_t) and throws DeviceError if the launch fails.
void launch_embed(const EmbedLaunch& launch, void* stream);

}  // namespace octavo
