#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <mutex>
#include <vector>

#include "base/log.h"
#include "device/backend.h"
#include "device/counters.h"
#include "device/cuda_check.h"
#include "octavo/error.h"

namespace octavo {
namespace {

std::mutex lost_mutex;
std::string first_cause;  // of a sticky error; empty while the device lives

bool is_sticky(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorLaunchTimeout:
      return true;
    default:
      return false;
  }
}

}  // namespace

void cuda_check(cudaError_t status, const char* what, std::source_location where) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears a non-sticky error, so that it is not reported twice
  const std::string cause = fmt::format("{}: CUDA error {} ({}) at {}:{}", what, int(status), cudaGetErrorString(status), where.file_name(), where.line());
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(cause);
  const std::lock_guard lock(lost_mutex);
  if (!first_cause.empty()) throw DeviceError(fmt::format("device lost earlier: {}; start the program again", first_cause));
  if (is_sticky(status)) first_cause = cause;
  throw DeviceError(cause);
}

namespace backend {
namespace {

// Makes `device` current for a scope.
class Current {
 public:
  explicit Current(Device device) {
    cuda_check(cudaGetDevice(&previous_), "current device");
    if (previous_ != device.index) cuda_check(cudaSetDevice(device.index), "select device");
  }
  ~Current() { cudaSetDevice(previous_); }

 private:
  int previous_ = 0;
};

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  cudaDeviceGetAttribute(&value, which, device);
  return value;
}

void count_allocation(Device device) {
  DeviceCounters& counters = device_counters();
  ++counters.allocations;
  if (counters.memory_watches == 0) return;
  const std::int64_t used = cuda_used_bytes(device);
  std::int64_t most = counters.most_used_bytes;
  while (used > most && !counters.most_used_bytes.compare_exchange_weak(most, used)) {
  }
}

std::int64_t kernels_of(cudaGraph_t graph) {
  std::size_t count = 0;
  if (cudaGraphGetNodes(graph, nullptr, &count) != cudaSuccess) return 0;
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0 && cudaGraphGetNodes(graph, nodes.data(), &count) != cudaSuccess) return 0;
  std::int64_t kernels = 0;
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    if (cudaGraphNodeGetType(node, &type) == cudaSuccess && type == cudaGraphNodeTypeKernel) ++kernels;
  }
  return kernels;
}

}  // namespace

GpuList cuda_list_gpus() {
  int count = 0;  // stays untouched when there is no driver
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    const bool no_driver = status == cudaErrorInsufficientDriver || status == cudaErrorStubLibrary;
    return {.gpus = {},
            .reason = no_driver                     ? "the NVIDIA driver is absent or older than CUDA 13 (580)"
                      : status == cudaErrorNoDevice ? "no NVIDIA GPU found"
                                                    : cudaGetErrorString(status)};
  }
  GpuList list;
  int driver = 0;
  cudaDriverGetVersion(&driver);
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    DeviceCaps caps;
    caps.name = properties.name;
    caps.sm = properties.major * 10 + properties.minor;
    caps.sm_count = properties.multiProcessorCount;
    caps.memory_bytes = std::int64_t(properties.totalGlobalMem);
    caps.shared_per_sm_bytes = int(properties.sharedMemPerMultiprocessor);
    caps.shared_per_block_bytes = int(properties.sharedMemPerBlockOptin);
    caps.l2_bytes = properties.l2CacheSize;
    caps.clock_khz = attribute(cudaDevAttrClockRate, i);
    caps.memory_clock_khz = attribute(cudaDevAttrMemoryClockRate, i);
    caps.memory_bus_bits = attribute(cudaDevAttrGlobalMemoryBusWidth, i);
    caps.driver_version = driver;
    std::size_t free_now = 0;
    std::size_t total = 0;
    const Current current(Device{Device::Kind::cuda, i});
    if (cudaMemGetInfo(&free_now, &total) == cudaSuccess) caps.free_bytes = std::int64_t(free_now);
    list.gpus.push_back(std::move(caps));
  }
  if (list.gpus.empty()) list.reason = "no NVIDIA GPU found";
  return list;
}

std::int64_t cuda_used_bytes(Device device) {
  const Current current(device);
  std::size_t free_now = 0;
  std::size_t total = 0;
  cuda_check(cudaMemGetInfo(&free_now, &total), "ask for the memory in use");
  return std::int64_t(total - free_now);
}

void* cuda_allocate(std::size_t bytes, Device device, std::string_view what) {
  const Current current(device);
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free_now = 0;
    std::size_t total = 0;
    cudaMemGetInfo(&free_now, &total);
    throw OutOfMemory(fmt::format("{}: {:.1f} MiB wanted for {}, {:.1f} of {:.1f} MiB are free; use a smaller picture or close other programs", device.name(),
                                  double(bytes) / 1048576, what, double(free_now) / 1048576, double(total) / 1048576));
  }
  cuda_check(status, "allocate");
  count_allocation(device);
  return data;
}

void cuda_free(void* data, Device) noexcept {
  if (cudaFree(data) != cudaSuccess) cudaGetLastError();  // a destructor lets go; the cause was reported where it arose
}

void* cuda_create_stream(Device device) {
  const Current current(device);
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create stream");
  return stream;
}

void cuda_destroy_stream(void* stream) noexcept { cudaStreamDestroy(static_cast<cudaStream_t>(stream)); }

void cuda_synchronize(void* stream) {
  ++device_counters().waits;
  cuda_check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "wait for the GPU");
}

void cuda_begin_recording(void* stream) {
  // Thread local: another thread may go on allocating.
  cuda_check(cudaStreamBeginCapture(static_cast<cudaStream_t>(stream), cudaStreamCaptureModeThreadLocal), "begin to record a graph");
}

void* cuda_end_recording(void* stream) {
  cudaGraph_t graph = nullptr;
  cuda_check(cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &graph), "record a graph");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  device_counters().recorded_kernels += kernels_of(graph);
  cudaGraphDestroy(graph);
  cuda_check(status, "instantiate a graph");
  return executable;
}

void cuda_drop_recording(void* stream) noexcept {
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &graph) == cudaSuccess && graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
}

void cuda_launch_graph(void* executable, void* stream) {
  ++device_counters().graph_launches;
  cuda_check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable), static_cast<cudaStream_t>(stream)), "launch a graph");
}

void cuda_destroy_graph(void* executable) noexcept { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable)); }

void* cuda_allocate_pinned(std::size_t bytes, Device device, std::string_view what) {
  const Current current(device);
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw OutOfMemory(
        fmt::format("memory: {:.1f} MiB of page-locked host memory wanted for {}, the system gives less; use a larger --vram, so that less is "
                    "streamed, or raise the limit of locked memory (ulimit -l)",
                    double(bytes) / 1048576, what));
  }
  cuda_check(status, "allocate page-locked memory");
  return data;
}

void cuda_free_pinned(void* data) noexcept {
  if (cudaFreeHost(data) != cudaSuccess) cudaGetLastError();
}

void* cuda_create_event(Device device) {
  const Current current(device);
  cudaEvent_t event = nullptr;
  cuda_check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "create event");
  return event;
}

void cuda_destroy_event(void* event) noexcept { cudaEventDestroy(static_cast<cudaEvent_t>(event)); }

void cuda_record(void* event, void* stream) { cuda_check(cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream)), "record event"); }

void cuda_wait(void* stream, void* event) {
  cuda_check(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event), 0), "wait for an event");
}

void cuda_copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes, void* stream) {
  if (to_device.is_cpu() || from_device.is_cpu()) ++device_counters().host_copies;
  cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream)), "copy");
}

}  // namespace backend
}  // namespace octavo
