// What a GPU allows: the time that the multiplications take at the boost clock, or the bytes at the memory's bandwidth, whichever is longer.
#pragma once

#include <algorithm>

#include "device/device.h"
#include "ops/op_timer.h"

namespace octavo {

// Dense multiply-adds per clock and SM at most, sums in int32 or float32: tensor cores for s8, bf16 and f16, else one per float32 unit. kernels.md section 1
// GeForce does bf16 at a quarter of its int8 rate, the large chips at half; workstation cards of the same sm do half too and are rated too low here.
inline double macs_per_clock(DType math, int sm) {
  const bool is_large = sm == 80 || (sm >= 90 && sm < 120);
  const double int8 = sm >= 100 && sm < 120 ? 8192 : sm >= 90 && sm < 100 ? 4096 : sm == 80 ? 2048 : 1024;
  if (math == DType::s8) return int8;
  if (math == DType::bf16 || math == DType::f16) return is_large ? int8 / 2 : int8 / 4;
  return sm <= 80 ? 64 : 128;
}

inline double macs_per_second(DType math, const DeviceCaps& caps) {
  return macs_per_clock(math, caps.sm) * double(caps.clock_khz) * 1e3 * double(caps.sm_count);
}

inline double bandwidth_of(const DeviceCaps& caps) { return 2.0 * double(caps.memory_clock_khz) * 1e3 * double(caps.memory_bus_bits) / 8; }

struct OpLimit {
  double seconds = 0;
  const char* what = "";  // "tensor cores", "float32 units" or "memory"
};

inline OpLimit limit_of(const OpWork& work, const DeviceCaps& caps) {
  const double at_work = work.macs / std::max(macs_per_second(work.math, caps), 1.0);
  const double at_memory = work.bytes / std::max(bandwidth_of(caps), 1.0);
  if (at_memory > at_work) return {at_memory, "memory"};
  return {at_work, work.math == DType::f32 ? "float32 units" : "tensor cores"};
}

}  // namespace octavo
