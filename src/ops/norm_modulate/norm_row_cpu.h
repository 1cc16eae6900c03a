// The arithmetic of one normalised row, and the float32 parameters it reads. Shared by the plain and the threaded body.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/norm_modulate/norm_modulate.h"

namespace octavo {

// weight and 1 + mod_scale as float32 [K]; `factor` is empty without modulation.
struct NormRow {
  std::vector<float> weight{};
  std::vector<float> factor{};
  float eps = 0;

  explicit NormRow(const NormArgs& args);
  NormRow(float epsilon, const std::optional<TensorView>& mod_scale);  // layer_norm: no weight

  void rms(float* x, std::int64_t count) const;    // x = (x · rsqrt(mean x² + eps)) · weight · factor
  void layer(float* x, std::int64_t count) const;  // x = ((x - mean) · rsqrt(var + eps)) · factor
};

// tanh(mod_gate) as float32 [K].
std::vector<float> tanh_of(const TensorView& mod_gate);

}  // namespace octavo
