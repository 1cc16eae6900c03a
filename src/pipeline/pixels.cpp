#include "pipeline/pixels.h"

#include <algorithm>
#include <cmath>

namespace octavo {

std::vector<std::uint8_t> to_bytes(const TensorView& decoded) {
  std::vector<std::uint8_t> bytes(std::size_t(decoded.shape.elements()));
  const float* x = decoded.as<float>();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const float clamped = x[i] >= -1 ? std::min(x[i], 1.0f) : -1.0f;  // the comparison is false for NaN
    bytes[i] = std::uint8_t(std::nearbyint((clamped + 1.0f) * 127.5f));
  }
  return bytes;
}

void to_unit_range(const TensorView& decoded, const TensorView& out) {
  const float* x = decoded.as<float>();
  float* unit = out.as<float>();
  for (std::int64_t i = 0; i < decoded.shape.elements(); ++i) unit[i] = (std::clamp(x[i], -1.0f, 1.0f) + 1.0f) * 0.5f;
}

bool all_finite(const TensorView& tensor) {
  const float* x = tensor.as<float>();
  return std::all_of(x, x + tensor.shape.elements(), [](float value) { return std::isfinite(value); });
}

}  // namespace octavo
