// Turns a CUDA status into an exception. Included by files that already use the CUDA runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

namespace octavo {

// Throws OutOfMemory or DeviceError naming `what`, the CUDA error, file and line.
// A sticky error marks the process's devices as lost: later calls repeat the first cause.
void cuda_check(cudaError_t status, const char* what, std::source_location where = std::source_location::current());

}  // namespace octavo
