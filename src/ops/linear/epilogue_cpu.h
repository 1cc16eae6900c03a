// The epilogue of a projection on the CPU, feature by feature, in float32. numerics.md section 5
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/linear/linear.h"

namespace octavo {

// A vector of the layer as float32, or empty.
inline std::vector<float> floats_of(const std::optional<TensorView>& vector) {
  std::vector<float> values;
  if (vector) {
    values.resize(std::size_t(vector->shape.elements()));
    load_as_float(vector->data, vector->dtype, std::int64_t(values.size()), values.data());
  }
  return values;
}

// Finishes one row in place and stores it as columns [first, first + count) of row m of y:
//   v += bias;  v = silu(v);  v *= mod_gate;  v *= factor;  v += residual.  bias and mod_gate are whole vectors [N], or empty.
inline void finish_row(float* v, std::int64_t m, std::int64_t first, std::int64_t count, const std::vector<float>& bias, const std::vector<float>& mod_gate,
                       const Epilogue& epilogue, const TensorView& y) {
  if (!bias.empty()) {
    for (std::int64_t n = 0; n < count; ++n) v[n] += bias[std::size_t(first + n)];
  }
  if (epilogue.activation == Activation::silu) {
    for (std::int64_t n = 0; n < count; ++n) v[n] = v[n] / (1.0f + std::exp(-v[n]));
  }
  if (!mod_gate.empty()) {
    for (std::int64_t n = 0; n < count; ++n) v[n] *= mod_gate[std::size_t(first + n)];
  }
  if (epilogue.factor != 1) {
    for (std::int64_t n = 0; n < count; ++n) v[n] *= epilogue.factor;
  }
  if (epilogue.residual) {
    const TensorView& residual = *epilogue.residual;
    const auto* row = static_cast<const std::byte*>(residual.row_bytes(m)) + std::size_t(first) * bytes_of(residual.dtype);
    constexpr std::int64_t kChunk = 256;
    float r[kChunk];
    for (std::int64_t n = 0; n < count; n += kChunk) {
      const std::int64_t here = std::min(kChunk, count - n);
      load_as_float(row + std::size_t(n) * bytes_of(residual.dtype), residual.dtype, here, r);
      for (std::int64_t i = 0; i < here; ++i) v[n + i] += r[i];
    }
  }
  store_from_float(v, count, y.dtype, static_cast<std::byte*>(y.row_bytes(m)) + std::size_t(first) * bytes_of(y.dtype));
}

}  // namespace octavo
