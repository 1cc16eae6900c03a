// Host side of the row kernels: from run-time types to template arguments, and the launch itself.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda/row/walk.h"

namespace octavo::cuda {

template <RowType Type>
using TypeTag = std::integral_constant<RowType, Type>;
template <int Count>
using CountTag = std::integral_constant<int, Count>;

// Calls f with the type as a constant.
template <class F>
void with_type(RowType type, const F& f) {
  switch (type) {
    case RowType::f32:
      return f(TypeTag<RowType::f32>{});
    case RowType::bf16:
      return f(TypeTag<RowType::bf16>{});
    case RowType::f16:
      return f(TypeTag<RowType::f16>{});
  }
}

template <class F>
void with_segments(int segments_per_warp, const F& f) {
  if (segments_per_warp == 1) return f(CountTag<1>{});
  f(CountTag<3>{});
}

// What every launch gets without asking. The driver's 48 KiB include a kernel's static shared memory (here at most a few hundred bytes), so a dynamic
// request of just 48 KiB is refused: above 40 KiB a kernel opts in.
inline constexpr int kDefaultSharedBytes = 40 * 1024;

// Lets `kernel` have that much dynamic shared memory. Only ever raises: launches of other shapes may be under way.
inline cudaError_t allow_shared(const void* kernel, int device_index, int shared_bytes) {
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, int> allowed;
  if (shared_bytes <= kDefaultSharedBytes) return cudaSuccess;
  const std::lock_guard lock(mutex);
  int& bytes = allowed[{kernel, device_index}];
  if (shared_bytes <= bytes) return cudaSuccess;
  const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (status == cudaSuccess) bytes = shared_bytes;
  return status;
}

// CTAs that the whole GPU holds at once: what a kernel that walks over rows starts. The hardware deals CTAs out in turn, so that with a
// fixed stride the rows left over go to different SMs. Asking the driver takes microseconds, a kernel ten: asked once for each kind of launch.
inline cudaError_t resident_ctas(const void* kernel, int device_index, int threads, int shared_bytes, std::int64_t& ctas) {
  static std::mutex mutex;
  static std::map<std::tuple<const void*, int, int, int>, std::int64_t> known;
  const std::lock_guard lock(mutex);
  std::int64_t& resident = known[{kernel, device_index, threads, shared_bytes}];
  if (resident == 0) {
    int per_sm = 0;
    int sms = 0;
    cudaError_t status = allow_shared(kernel, device_index, shared_bytes);
    if (status == cudaSuccess) status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, threads, std::size_t(shared_bytes));
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device_index);
    if (status != cudaSuccess) return status;
    resident = std::max(1, per_sm) * std::int64_t(sms);
  }
  ctas = resident;
  return cudaSuccess;
}

// The attribute that lets a kernel begin while its predecessor ends; `allowed` 0 where the GPU cannot. For kernels that call wait_for_predecessor().
inline cudaLaunchAttribute overlap_attribute(int device_index) {
  constexpr int kMaxDevices = 64;
  static std::atomic<int> known[kMaxDevices];  // 0: not asked yet, 1: no, 2: yes
  int state = device_index < kMaxDevices ? known[device_index].load(std::memory_order_relaxed) : 0;
  if (state == 0) {
    int major = 0;
    state = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_index) == cudaSuccess && major >= 9 ? 2 : 1;
    if (device_index < kMaxDevices) known[device_index].store(state, std::memory_order_relaxed);
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = state == 2 ? 1 : 0;
  return attribute;
}

// Enqueues kernel(arguments), which calls wait_for_predecessor(), and returns the status of the launch alone.
template <class Arguments>
cudaError_t launch_overlapping(void (*kernel)(Arguments), dim3 grid, dim3 threads, int shared_bytes, void* stream, const Arguments& arguments) {
  int device_index = 0;
  cudaError_t status = cudaGetDevice(&device_index);
  if (status == cudaSuccess) status = allow_shared(reinterpret_cast<const void*>(kernel), device_index, shared_bytes);
  if (status != cudaSuccess) return status;
  cudaLaunchAttribute attribute = overlap_attribute(device_index);
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = threads;
  config.dynamicSmemBytes = std::size_t(shared_bytes);
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &attribute;
  config.numAttrs = attribute.val.programmaticStreamSerializationAllowed != 0 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments);
}

// Enqueues kernel(arguments) and returns the status of the launch alone.
template <class Arguments>
cudaError_t launch_rows(void (*kernel)(Arguments), std::int64_t ctas, dim3 threads, int shared_bytes, void* stream, Arguments arguments) {
  int device_index = 0;
  cudaError_t status = cudaGetDevice(&device_index);
  if (status == cudaSuccess) status = allow_shared(reinterpret_cast<const void*>(kernel), device_index, shared_bytes);
  if (status != cudaSuccess) return status;
  void* pointers[] = {&arguments};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(unsigned(ctas)), threads, pointers, std::size_t(shared_bytes),
                          static_cast<cudaStream_t>(stream));
}

inline cudaError_t shared_limits(int device_index, SharedLimits& limits) {
  const cudaError_t status = cudaDeviceGetAttribute(&limits.per_cta, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_index);
  return status == cudaSuccess ? cudaDeviceGetAttribute(&limits.per_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device_index) : status;
}

// Enqueues a kernel that walks over `rows`: as many CTAs as the GPU holds, or fewer if that gives every team a row.
template <class Arguments>
cudaError_t launch_walk(void (*kernel)(Arguments), std::int64_t rows, const WalkPlan& plan, int device_index, void* stream, Arguments arguments) {
  std::int64_t resident = 0;
  const int threads = plan.warps * kWarpLanes;
  const cudaError_t status = resident_ctas(reinterpret_cast<const void*>(kernel), device_index, threads * plan.teams, plan.shared_bytes, resident);
  if (status != cudaSuccess) return status;
  arguments.depth = plan.depth;
  return launch_overlapping(kernel, dim3(unsigned(std::min(resident, rows))), dim3(unsigned(threads), unsigned(plan.teams)), plan.shared_bytes, stream,
                            arguments);
}

}  // namespace octavo::cuda
