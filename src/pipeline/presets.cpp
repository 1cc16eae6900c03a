#include "pipeline/presets.h"

#include <algorithm>

namespace octavo {

const Preset* find_preset(std::string_view name) {
  const auto found = std::find_if(kPresets.begin(), kPresets.end(), [&](const Preset& preset) { return preset.name == name; });
  return found == kPresets.end() ? nullptr : &*found;
}

std::vector<float> guidance_with_tail(float main, float tail, int tail_steps, int steps) {
  std::vector<float> values(std::size_t(steps), main);
  std::fill_n(values.rbegin(), std::min(tail_steps, steps - 1), tail);
  return values;
}

std::vector<float> guidance_of(const Preset& preset, int steps) { return guidance_with_tail(preset.guidance, preset.tail_guidance, preset.tail_steps, steps); }

std::vector<float> guidance_stretched(std::span<const float> list, int steps) {
  if (list.size() == std::size_t(steps)) return {list.begin(), list.end()};
  const auto tail_end = std::find_if(list.rbegin(), list.rend(), [&](float value) { return value != list.back(); });
  const bool is_constant = tail_end == list.rend();
  return guidance_with_tail(list.front(), list.back(), is_constant ? 0 : int(tail_end - list.rbegin()), steps);
}

}  // namespace octavo
