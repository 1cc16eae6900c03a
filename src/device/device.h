// Where things run: the CPU, or one CUDA GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace octavo {

struct Device {
  enum class Kind : std::uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;

  bool operator==(const Device&) const = default;
  bool is_cpu() const { return kind == Kind::cpu; }
  std::string name() const;  // "cpu", "cuda:0"
};

// What a GPU can do. Filled from the driver; all sizes in bytes.
struct DeviceCaps {
  std::string name{};
  int sm = 0;  // compute capability: 86 means 8.6; less if OCTAVO_GPU_SM asks for it
  int sm_count = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t free_bytes = 0;  // when asked
  int shared_per_sm_bytes = 0;
  int shared_per_block_bytes = 0;  // after opting in
  int l2_bytes = 0;
  int clock_khz = 0;
  int memory_clock_khz = 0;
  int memory_bus_bits = 0;
  int driver_version = 0;  // 13000 = 13.0
};

// The GPUs that this build can use. Empty, with `reason` saying why, when there is none: no CUDA in this build,
// no driver, a driver too old, no GPU.
struct GpuList {
  std::vector<DeviceCaps> gpus{};
  std::string reason{};
};
GpuList list_gpus();

// What one GPU can do, asked once per process (free_bytes is of that moment). Throws Unsupported if it is not there.
const DeviceCaps& caps_of(Device device);

// Parses "auto", "cpu", "cuda", "cuda:1". "auto" is the first GPU if there is one, else the CPU.
// Throws InvalidArgument on any other text, Unsupported if that GPU is not there (and says what is).
Device parse_device(const std::string& text);

}  // namespace octavo
