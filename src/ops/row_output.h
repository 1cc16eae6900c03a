// Where a row op writes: as floats, or quantised for an INT8 projection. Fusion is an option of the producer.
#pragma once

#include <variant>

#include "quant/quantize.h"
#include "tensor/tensor.h"

namespace octavo {

// TensorView: f32, bf16 or f16 [M, K].  QuantizedView: s8 [M, K] with f32 scale [M]; quantised from the unrounded float32 row,
// after ConvRot if its rotation_group is set (numerics.md sections 3, 6).
using RowOutput = std::variant<TensorView, QuantizedView>;

}  // namespace octavo
