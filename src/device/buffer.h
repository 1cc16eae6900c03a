// Owning bytes and rewindable scratch, on the CPU or on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace octavo {

// Bytes on one device, freed with the object. 256-byte aligned on a GPU, 64-byte aligned on the CPU. Not initialised.
// Throws OutOfMemory (how much, for `what`, what is free).
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::size_t bytes, Device device, std::string_view what);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  void* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }
  Device device() const noexcept { return device_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_{};
};

// Scratch memory: take() moves forward, rewinding moves back. Blocks are added when needed and kept.
// Pointers stay valid until rewound past. Every take is 256-byte aligned.
class Arena {
 public:
  explicit Arena(Device device) : device_(device) {}

  void* take(std::size_t bytes, std::string_view what);
  struct Mark {
    std::size_t block = 0;
    std::size_t used = 0;
  };
  Mark mark() const noexcept { return {block_, used_}; }
  void rewind(Mark mark) noexcept;
  Device device() const noexcept { return device_; }
  std::size_t peak_bytes() const noexcept { return peak_; }

 private:
  Device device_;
  std::vector<Buffer> blocks_{};
  std::size_t block_ = 0;  // index of the block in use
  std::size_t used_ = 0;   // bytes used in it
  std::size_t peak_ = 0;
};

// Gives back everything taken within a scope.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.rewind(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  Arena::Mark mark_;
};

}  // namespace octavo
