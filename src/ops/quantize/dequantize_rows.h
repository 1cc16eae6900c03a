// Int8 codes back into floats: for formats that are compared with, which multiply floats.
#pragma once

#include "ops/exec_context.h"
#include "quant/quantize.h"

namespace octavo {

// y[m,k] = float(q[m,k]) · scale[m], one float32 product, rounded to y's type. A rotation stays in: rotated rows meet rotated weights.
// x.q s8 [M,K], x.scale f32 [M]; y f32/bf16/f16 [M,K]; rows of both may be strided. Throws InvalidArgument on shapes.
void dequantize_rows(ExecContext& ctx, const QuantizedView& x, const TensorView& y);

}  // namespace octavo
