#include "ops/norm_modulate/walk.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "device/cuda_check.h"

namespace octavo::walk {
namespace {

// Asking the driver takes microseconds, a kernel ten: ask once for each kernel and shape of launch.
int resident_ctas(const void* kernel, int device, int threads, int shared) {
  static std::mutex mutex;
  static std::map<std::tuple<const void*, int, int, int>, int> known;
  const std::lock_guard lock(mutex);
  int& resident = known[{kernel, device, threads, shared}];
  if (resident == 0) {
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), "norm: shared memory");
    int per_sm = 0;
    int sms = 0;
    cuda_check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, threads, std::size_t(shared)), "norm: occupancy");
    cuda_check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "norm: multiprocessors");
    resident = std::max(1, per_sm * sms);
  }
  return resident;
}

}  // namespace

int max_shared_bytes(int device) {
  constexpr int kReductionScratch = 1024;
  int bytes = 0;
  cuda_check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "norm: shared memory of a block");
  return bytes - kReductionScratch;
}

std::int64_t ctas(const void* kernel, int device, int threads, int shared, std::int64_t rows) {
  const std::int64_t resident = resident_ctas(kernel, device, threads, shared);
  const std::int64_t rounds = (rows + resident - 1) / resident;
  return (rows + rounds - 1) / rounds;
}

}  // namespace octavo::walk
