// What happens to a projection's result before it is stored, applied in this order, in float32.
#pragma once

#include <cstdint>
#include <optional>

#include "tensor/tensor.h"

namespace octavo {

enum class Activation : std::uint8_t {
  none,
  silu,      // y = silu(v)
  silu_mul,  // SwiGLU, int8 weights only: rows of the weight alternate (gate, up); y[m, n] = silu(v[m, 2n]) · v[m, 2n+1], y has N/2 columns
};

struct Epilogue {
  Activation activation = Activation::none;  // after the bias; silu_mul goes with no gate and no residual
  std::optional<TensorView> mod_gate{};      // f32 [N]: y *= mod_gate; for blocks without a norm before the residual
  float factor = 1;                          // float weights only: y *= factor
  std::optional<TensorView> residual{};      // like y [M, N]: y += residual; may be y itself
};

}  // namespace octavo
