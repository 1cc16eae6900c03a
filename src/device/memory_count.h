// How much of a device's memory this process holds.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace octavo {

// Bytes of all Buffers of this process on one device, as they were asked for: now, and the most since the last reset. What a driver keeps for itself and
// what it rounds up to is not in them.
struct MemoryCount {
  std::int64_t now = 0;
  std::int64_t peak = 0;
};
MemoryCount memory_count(Device device);
void reset_memory_peak(Device device);

}  // namespace octavo
