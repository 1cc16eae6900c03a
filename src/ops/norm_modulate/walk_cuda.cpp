#include "ops/norm_modulate/walk.h"

#include <cuda_runtime_api.h>

#include "device/cuda_check.h"

namespace octavo::walk {

int max_shared_bytes(int device_index) {
  constexpr int kReductionScratch = 1024;
  int bytes = 0;
  cuda_check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_index), "norm: shared memory of a block");
  return bytes - kReductionScratch;
}

}  // namespace octavo::walk
