// How a GPU feels right now, from the driver's management library if it can be loaded. Only read, never set.
#pragma once

#include <cstdint>
#include <string>

namespace octavo {

struct GpuState {
  bool is_known = false;
  unsigned sm_mhz = 0;
  unsigned memory_mhz = 0;
  unsigned celsius = 0;
  double watts = 0;
  std::uint64_t throttle_reasons = 0;  // NVML's bits

  // Bits that mean "slower than it could be": power cap, thermal and hardware slowdowns. Idle and application clocks are none.
  bool is_throttled() const { return (throttle_reasons & (0x4u | 0x8u | 0x20u | 0x40u | 0x80u)) != 0; }
  std::string text() const;  // "1980 MHz, 412 W, 51 C, power cap active"
};

GpuState gpu_state(int index);

}  // namespace octavo
