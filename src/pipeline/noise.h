// Gaussian noise drawn from a counter. numerics.md section 7
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace octavo {

// Philox4x32-10 (Salmon et al. 2011): four pseudo-random words for one counter and key.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// out[i] ~ N(0, 1): element i depends on the seed and on i only, so any build, device and batch draws the same picture's noise.
// Box-Muller in float64 on the counter i div 4, each value rounded to float32 once.
void draw_noise(std::uint64_t seed, std::span<float> out);

}  // namespace octavo
