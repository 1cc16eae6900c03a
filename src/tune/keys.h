// What a measured choice depends on: the GPU with its driver and kernels, and the shape of the problem.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "device/device.h"

namespace octavo::tune {

// A choice is good for one model of GPU, one major version of the driver, one set of compiled kernels.
struct GpuKey {
  std::string name{};
  int sm = 0;
  int sm_count = 0;
  int driver_major = 0;
  std::string kernel_set{};  // a hash over what was compiled; the op computes it

  bool operator==(const GpuKey&) const = default;
  std::string text() const;       // "NVIDIA H200 (sm_90, 132 SMs), driver 13, kernels 0123456789abcdef"
  std::string file_name() const;  // "nvidia-h200.json"
};
GpuKey gpu_key(const DeviceCaps& caps, std::string kernel_set);

// Rows that share one choice: in steps of 128 up to 1024, of 512 above. The bucket's name is its largest M.
// Never the exact M: every new prompt length would be tuned again.
std::int64_t m_bucket(std::int64_t m);

struct ShapeKey {
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t m = 0;   // a bucket; for two problems in one launch, the exact M of the first
  std::int64_t m2 = 0;  // exact M of the second problem of the launch; 0: there is none
  std::string epilogue{};
  std::string out{};

  auto operator<=>(const ShapeKey&) const = default;
  std::string text() const;  // "M 4096, N 13824, K 4608, plain, bf16"
};

}  // namespace octavo::tune
