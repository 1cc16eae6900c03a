// What a GPU program did behind a forward pass's back, and how much of a device's memory is taken. Sums only: nothing is decided here, and a bench or a test
// takes differences.
#pragma once

#include <atomic>
#include <cstdint>

#include "device/device.h"

namespace octavo {

// Of this process, since it started.
struct DeviceCounters {
  std::atomic<std::int64_t> allocations{0};       // of GPU memory
  std::atomic<std::int64_t> waits{0};             // of the host for a stream
  std::atomic<std::int64_t> host_copies{0};       // to or from host memory, which may wait too
  std::atomic<std::int64_t> graph_launches{0};    // of recorded work
  std::atomic<std::int64_t> recorded_kernels{0};  // in all recordings so far
  std::atomic<int> memory_watches{0};             // MemoryWatches on GPUs that live now
  std::atomic<std::int64_t> most_used_bytes{0};   // what they saw
};

inline DeviceCounters& device_counters() {
  static DeviceCounters counters;
  return counters;
}

// Bytes of all Buffers of this process on one device, as they were asked for: now, and the most since the last reset. What a driver keeps for itself and
// what it rounds up to is not in them.
struct MemoryCount {
  std::int64_t now = 0;
  std::int64_t peak = 0;
};
MemoryCount memory_count(Device device);
void reset_memory_peak(Device device);

// The memory of a GPU that is in use by everybody, the driver's contexts included, as the driver says: asked right after every allocation of this process
// while a watch lives (up to 0.1 ms each), and whenever look() is called, which sees what others allocate: libraries, recorded graphs, kernels that were
// loaded. On the CPU it is memory_count. One watch at a time.
class MemoryWatch {
 public:
  explicit MemoryWatch(Device device);
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  std::int64_t now() const;
  std::int64_t look();  // the most since the start, or since forget()
  void forget();

 private:
  Device device_;
};

}  // namespace octavo
