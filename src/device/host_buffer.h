// Host memory for copies that run beside the work of a GPU.
#pragma once

#include <cstddef>
#include <string_view>

#include "device/device.h"

namespace octavo {

// Host memory that a GPU copies from and to while it computes: page-locked for a CUDA device, plain for the CPU. 64-byte aligned. Not initialised.
// Throws OutOfMemory.
class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(std::size_t bytes, Device user, std::string_view what);
  ~HostBuffer();
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;

  void* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device user_{};
};

}  // namespace octavo
