// What to draw. Plain data: every field that is left unset takes the preset's value, then the model's default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace octavo {

// Where the sigma schedule ends: `zero` as diffusers does it, `official` at the model's own t_max (sigma 5.5e-4).
enum class ScheduleEnd { zero, official };

// A float32 tensor from a safetensors file, to start from instead of drawn noise.
struct NoiseSource {
  std::string path{};
  std::string tensor{};
};

// Thin matrices that change the denoisers for one request: the weights stay as they are, the next request may bring others.
struct LoraSource {
  std::string path{};   // a safetensors file
  double strength = 1;  // 0: none of it, 1: as trained; may be negative
};

struct Request {
  std::string prompt{};                 // UTF-8 without NUL; plain text, or a JSON caption passed byte for byte
  std::optional<int> width{};           // pixels, a multiple of 16
  std::optional<int> height{};          // pixels, a multiple of 16
  std::optional<std::string> preset{};  // "quality-48", "default-20", "turbo-12"
  std::optional<int> steps{};           // >= 1
  std::vector<float> guidance{};        // empty: preset's; one value: every step; else one per step, in time order
  std::optional<double> mu{};           // mean of the logit-normal schedule, before the resolution shift
  std::optional<double> std_dev{};      // its standard deviation, > 0
  std::uint64_t seed = 0;
  int batch = 1;  // pictures with seeds seed ... seed + batch - 1
  ScheduleEnd schedule_end = ScheduleEnd::zero;
  std::optional<NoiseSource> noise{};      // [L, C], [1, L, C] or [batch, L, C] float32
  std::vector<LoraSource> loras{};         // act together, added in this order
  std::optional<std::string> dump_path{};  // write the intermediate tensors as safetensors
  bool force = false;                      // lift the 2048-pixel limit
};

}  // namespace octavo
