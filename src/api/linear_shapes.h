// The --shapes option of tune and bench.
#pragma once

#include <string>
#include <vector>

#include "device/device.h"
#include "ops/linear/linear_timer.h"

namespace octavo {

// A set's name, or "M,N,K[;M,N,K…]". Throws InvalidArgument, naming `who`.
std::vector<LinearShape> parse_linear_shapes(const std::string& who, const std::string& text);

// "qkv 4096x13824x4608"
std::string shape_text(const LinearShape& shape);

// A GPU to measure on. Throws Unsupported, naming `who` and the reason, if there is none; InvalidArgument if `text` names a CPU or is unknown.
struct BenchGpu {
  Device device{};
  DeviceCaps caps{};
};
BenchGpu bench_gpu(const std::string& who, const std::string& text);

}  // namespace octavo
