// What a GPU program did behind a forward pass's back, counted since it started. Sums only: nothing is decided here, and a bench or a test takes
// differences.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace octavo {

struct DeviceCounters {
  std::atomic<std::int64_t> allocations{0};       // of GPU memory
  std::atomic<std::int64_t> waits{0};             // of the host for a stream
  std::atomic<std::int64_t> host_copies{0};       // to or from host memory, which may wait too
  std::atomic<std::int64_t> graph_launches{0};    // of recorded work
  std::atomic<std::int64_t> recorded_kernels{0};  // in all recordings so far
  // The least memory that was free on a GPU right after an allocation. Looked at while `watches_memory` is set: the question costs up to 0.1 ms.
  std::atomic<bool> watches_memory{false};
  std::atomic<std::int64_t> least_free_bytes{std::numeric_limits<std::int64_t>::max()};
};

inline DeviceCounters& device_counters() {
  static DeviceCounters counters;
  return counters;
}

}  // namespace octavo
