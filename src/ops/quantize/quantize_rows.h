// Rows of floats into int8 codes with one scale per row.
#pragma once

#include "ops/exec_context.h"
#include "quant/quantize.h"

namespace octavo {

// Quantises each row symmetrically; numerics.md section 3, after the smoothing, one float32 quotient or product a value, and after the rotation of section 6
// if out.rotation_group is set.
// x f32/bf16/f16 [M,K], rows may be strided; out.q s8 [M,K], out.scale f32 [M]; smoothing.s f32 [K] if it acts.
// Throws InvalidArgument on shapes, or if the rotation group does not divide K.
void quantize_rows(ExecContext& ctx, const TensorView& x, const QuantizedView& out, const RowSmoothing& smoothing = {});

}  // namespace octavo
