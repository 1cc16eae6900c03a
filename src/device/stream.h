// Order of work on a GPU. On the CPU there is no stream: work is done when the call returns.
#pragma once

#include <cstddef>

#include "device/device.h"

namespace octavo {

// An owned CUDA stream. `handle()` is a cudaStream_t, typed void* so that host rooms need no CUDA header.
class Stream {
 public:
  explicit Stream(Device device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void* handle() const noexcept { return handle_; }
  Device device() const noexcept { return device_; }
  // Waits for all work; throws DeviceError with the first cause if any of it failed.
  void synchronize() const;

 private:
  Device device_;
  void* handle_ = nullptr;
};

// Copies between any two devices, enqueued on `stream` (synchronous and stream-free between CPU buffers).
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes, const Stream* stream);

}  // namespace octavo
