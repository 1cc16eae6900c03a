#include "tune/keys.h"

#include <fmt/format.h>

#include <utility>

#include "base/checked_math.h"

namespace octavo::tune {

std::string GpuKey::text() const { return fmt::format("{} (sm_{}, {} SMs), driver {}, kernels {}", name, sm, sm_count, driver_major, kernel_set); }

std::string GpuKey::file_name() const {
  std::string words;
  for (const char c : name) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (is_upper || is_plain) {
      words += is_upper ? char(c - 'A' + 'a') : c;
    } else if (!words.empty() && words.back() != '-') {
      words += '-';
    }
  }
  while (words.ends_with('-')) words.pop_back();
  return (words.empty() ? "gpu" : words) + ".json";
}

GpuKey gpu_key(const DeviceCaps& caps, std::string kernel_set) {
  return {.name = caps.name, .sm = caps.sm, .sm_count = caps.sm_count, .driver_major = caps.driver_version / 1000, .kernel_set = std::move(kernel_set)};
}

std::int64_t m_bucket(std::int64_t m) {
  constexpr std::int64_t kFineLimit = 1024;
  if (m <= 0) return 0;
  return round_up(m, m <= kFineLimit ? 128 : 512);
}

std::string ShapeKey::text() const {
  const std::string rows = m2 == 0 ? fmt::format("{}", m) : fmt::format("{}+{}", m, m2);
  return fmt::format("M {}, N {}, K {}, {}, {}", rows, n, k, epilogue, out);
}

}  // namespace octavo::tune
