// Scratch for the rows that travel between ops: floats, or codes with one scale per row.
#pragma once

#include <string_view>

#include "ops/exec_context.h"
#include "ops/row_output.h"
#include "quant/precision.h"
#include "tensor/tensor.h"

namespace octavo::nn {

// What a projection likes to read: floats, or codes after a rotation.
struct RowFormat {
  bool is_quantized = false;
  int rotation_group = 0;
  bool operator==(const RowFormat&) const = default;
};

// Dense, not initialised, from ctx.scratch: valid until the caller's ArenaScope ends.
TensorView scratch_tensor(ExecContext& ctx, DType dtype, Shape shape, std::string_view what);

// Rows [M, K] as a projection of `precision` reads them: s8 with scales if its activation format is quantised, else floats of
// its residual dtype. From ctx.scratch.
RowOutput scratch_rows(ExecContext& ctx, const Precision& precision, std::int64_t rows, std::int64_t columns, std::string_view what);

// Rows [M, K] in `format`: s8 with scales, to be filled after that rotation, or floats of dtype `floats`. From ctx.scratch.
RowOutput scratch_rows(ExecContext& ctx, const RowFormat& format, DType floats, std::int64_t rows, std::int64_t columns, std::string_view what);

// Rows [first, first + count) of either kind. No copy.
RowOutput row_range(const RowOutput& rows, std::int64_t first, std::int64_t count);

// Makes `x` readable by a projection: x itself if `precision` reads floats, else its quantised copy in ctx.scratch.
RowOutput as_projection_input(ExecContext& ctx, const Precision& precision, const TensorView& x);

}  // namespace octavo::nn
