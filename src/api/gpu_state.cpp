#include "api/gpu_state.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace octavo {
namespace {

// The few entry points of NVML that are read here; its handles are opaque pointers, its status 0 is success.
struct Nvml {
  using Handle = void*;
  int (*init)() = nullptr;
  int (*handle)(unsigned, Handle*) = nullptr;
  int (*clock)(Handle, int, unsigned*) = nullptr;
  int (*temperature)(Handle, int, unsigned*) = nullptr;
  int (*power)(Handle, unsigned*) = nullptr;
  int (*reasons)(Handle, unsigned long long*) = nullptr;
  bool is_ready = false;

  Nvml() {
    void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    is_ready = load(init, "nvmlInit_v2") && load(handle, "nvmlDeviceGetHandleByIndex_v2") && load(clock, "nvmlDeviceGetClockInfo") &&
               load(temperature, "nvmlDeviceGetTemperature") && load(power, "nvmlDeviceGetPowerUsage") &&
               load(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons") && init() == 0;
  }
};

}  // namespace

GpuState gpu_state(int index) {
  static const Nvml nvml;
  GpuState state;
  Nvml::Handle device = nullptr;
  if (!nvml.is_ready || nvml.handle(unsigned(index), &device) != 0) return state;
  constexpr int kSmClock = 1;
  constexpr int kMemoryClock = 2;
  unsigned milliwatts = 0;
  unsigned long long reasons = 0;
  state.is_known = nvml.clock(device, kSmClock, &state.sm_mhz) == 0;
  nvml.clock(device, kMemoryClock, &state.memory_mhz);
  nvml.temperature(device, 0, &state.celsius);
  if (nvml.power(device, &milliwatts) == 0) state.watts = milliwatts / 1000.0;
  if (nvml.reasons(device, &reasons) == 0) state.throttle_reasons = reasons;
  return state;
}

std::string GpuState::text() const {
  if (!is_known) return "clocks unknown (no NVML)";
  std::string line = fmt::format("{} MHz, {:.0f} W, {} C", sm_mhz, watts, celsius);
  if ((throttle_reasons & 0x4u) != 0) line += ", power cap active";
  if ((throttle_reasons & (0x8u | 0x20u | 0x40u | 0x80u)) != 0) line += ", slowed down (heat or hardware)";
  return line;
}

}  // namespace octavo
