// The published presets, and how a guidance value becomes one value per step. spec section 8.2
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace octavo {

// `guidance` for every step but the last `tail_steps`, which use `tail_guidance`.
struct Preset {
  std::string_view name{};
  int steps = 0;
  float guidance = 0;
  float tail_guidance = 0;
  int tail_steps = 0;
  double mu = 0;
  double std_dev = 0;
};

// The whole list. The first guidance value belongs to the noisiest step (the published tuples are stored last step first).
inline constexpr std::array kPresets{
    Preset{"quality-48", 48, 7.0f, 3.0f, 3, 0.0, 1.5},
    Preset{"default-20", 20, 7.0f, 3.0f, 2, 0.0, 1.75},
    Preset{"turbo-12", 12, 7.0f, 3.0f, 1, 0.5, 1.75},
};
inline constexpr const Preset& kDefaultPreset = kPresets[1];
inline constexpr int kDefaultSide = 1024;  // pixels, where neither the request nor the model says a size

const Preset* find_preset(std::string_view name);  // null if unknown

// One value per step in time order. At another step count the tail is kept: the last min(tail, steps - 1) steps use the tail value.
std::vector<float> guidance_with_tail(float main, float tail, int tail_steps, int steps);
std::vector<float> guidance_of(const Preset& preset, int steps);

// A list that belongs to another step count (from a model's defaults): its first value, with the run of equal values at its end as the tail.
std::vector<float> guidance_stretched(std::span<const float> list, int steps);

}  // namespace octavo
